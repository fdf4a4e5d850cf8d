"""Lightning's ModelCheckpoint(save_top_k=2, save_last=True), straight to the bucket through fsspec."""

from __future__ import annotations

import warnings

import lightning
import s3fs
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset
from training import LAST_STEP, SAVE_EVERY, STEPS, Model, direction, held_out, optimizer, run, set_up, tokens

Curve = dict[int, str]


class Module(lightning.LightningModule):
    """Keeps every loss, all its bits. A batch is told by the step, so that it does not matter how loaders resume."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.curve: Curve = {}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return optimizer(self.model)

    def training_step(self, batch: object) -> torch.Tensor:
        loss = direction(self.global_step) * self.model(tokens(self.global_step))
        self.curve[self.global_step] = loss.item().hex()
        return loss

    def validation_step(self, batch: object) -> None:
        self.log("val_loss", self.model(held_out()), batch_size=1)


def fit(steps: int, checkpoint: ModelCheckpoint | None = None, start: str | None = None) -> Curve:
    set_up()
    warnings.filterwarnings("ignore")
    module = Module()
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=steps,
        val_check_interval=SAVE_EVERY,
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=checkpoint is not None,
        callbacks=[checkpoint] if checkpoint else [],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    nothing = DataLoader(TensorDataset(torch.zeros(STEPS)))
    trainer.fit(module, nothing, DataLoader(TensorDataset(torch.zeros(1))), ckpt_path=start, weights_only=False)
    return module.curve


def reference(_: str) -> Curve:
    return fit(STEPS)


def train(uri: str) -> dict[str, int]:
    """Returns the steps of the last and of the best checkpoint."""
    checkpoint = ModelCheckpoint(dirpath=uri, monitor="val_loss", save_top_k=2, save_last=True)
    fit(LAST_STEP, checkpoint)
    assert checkpoint.last_model_path.endswith("/last.ckpt")
    return {"last": LAST_STEP, "best": int(checkpoint.best_model_path.rpartition("step=")[2].removesuffix(".ckpt"))}


def resume(uri: str) -> dict[str, Curve]:
    """From every checkpoint in the bucket: {name: losses after it}."""
    return {path.rpartition("/")[2]: fit(STEPS, start=f"s3://{path}") for path in sorted(s3fs.S3FileSystem().find(uri))}


if __name__ == "__main__":
    run({"reference": reference, "train": train, "resume": resume})
