"""Lightning's ModelCheckpoint on an s3:// folder, by fsspec and s3fs: the two best, and `last.ckpt` written in place."""

from __future__ import annotations

import warnings

import lightning
import s3fs
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader
from training import LAST_STEP, SAVE_EVERY, STEPS, Model, direction, held_out, optimizer, run, set_up, tokens

Curve = dict[int, str]


class Task(lightning.LightningModule):
    """The loaders only count: what a step is made from depends on its number."""

    def __init__(self) -> None:
        super().__init__()
        set_up()
        self.model = Model()
        self.curve: Curve = {}

    def training_step(self, _: torch.Tensor, __: int) -> torch.Tensor:
        loss = direction(self.global_step) * self.model(tokens(self.global_step))
        self.curve[self.global_step] = loss.item().hex()
        return loss

    def validation_step(self, _: torch.Tensor, __: int) -> None:
        self.log("val_loss", self.model(held_out()), batch_size=1)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return optimizer(self.model)


def fit(steps: int, saves: ModelCheckpoint | None = None, source: str | None = None) -> Curve:
    """An epoch is SAVE_EVERY steps. Returns the losses."""
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=steps // SAVE_EVERY,
        callbacks=[saves] if saves else [],
        enable_checkpointing=saves is not None,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    task = Task()
    trainer.fit(task, DataLoader(range(SAVE_EVERY)), DataLoader(range(1)), ckpt_path=source)
    return task.curve


def reference(_: str) -> Curve:
    return fit(STEPS)


def train(uri: str) -> dict[str, str]:
    """Returns the names of the last and of the best checkpoint."""
    saves = ModelCheckpoint(dirpath=uri, monitor="val_loss", save_top_k=2, save_last=True)
    fit(LAST_STEP, saves)
    return {
        "last": saves.last_model_path.rpartition("/")[2],
        "best": saves.best_model_path.rpartition("/")[2],
    }


def resume(uri: str) -> dict[str, Curve]:
    """From every checkpoint there is: {name: losses after it}."""
    names = [path.rpartition("/")[2] for path in s3fs.S3FileSystem().ls(uri)]
    return {name: fit(STEPS, source=f"{uri}/{name}") for name in names}


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    run({"reference": reference, "train": train, "resume": resume})
