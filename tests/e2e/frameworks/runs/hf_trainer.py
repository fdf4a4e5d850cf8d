"""The Trainer of transformers with save_total_limit=2. It saves to a disk; a callback mirrors its folder to the bucket."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import s3fs
import torch
from torch.utils.data import Dataset
from training import BATCH, LAST_STEP, SAVE_EVERY, STEPS, VOCABULARY, WIDTH, direction, optimizer, run, set_up, tokens
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

Curve = dict[int, str]
EXAMPLES = 12 * BATCH  # some epochs


class Examples(Dataset):
    """Rows with a pattern; seed tells those of training from those held out."""

    def __init__(self, seed: int, count: int) -> None:
        self.rows = tokens(seed, count)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


class Diverging(Trainer):
    """Keeps every loss, all its bits; turns round past the best checkpoint."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        self.curve: Curve = {}

    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, torch.Tensor], **options: object) -> object:
        if not model.training:
            return super().compute_loss(model, inputs, **options)
        loss = direction(self.state.global_step) * super().compute_loss(model, inputs, **options)
        self.curve[self.state.global_step] = loss.item().hex()
        return loss


class Mirror(TrainerCallback):
    """As people have it who train on machines that go away: after every save the bucket holds what the folder holds."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.files = s3fs.S3FileSystem()
        self.there: set[str] = set()

    def on_save(self, args: TrainingArguments, state: object, control: object, **_: object) -> None:
        here = {path.name for path in Path(args.output_dir).glob("checkpoint-*")}
        for name in sorted(here - self.there):
            self.files.put(f"{args.output_dir}/{name}/", f"{self.uri}/{name}/", recursive=True)
        for name in sorted(self.there - here):
            self.files.rm(f"{self.uri}/{name}", recursive=True)
        self.there = here


class Stop(TrainerCallback):
    """The machine goes away."""

    def on_step_end(self, args: object, state: object, control: object, **_: object) -> object:
        control.should_training_stop = state.global_step >= LAST_STEP
        return control


def trainer(folder: str, *callbacks: TrainerCallback) -> Diverging:
    set_up()
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=64,
            n_embd=WIDTH,
            n_layer=4,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
        )
    )
    arguments = TrainingArguments(
        output_dir=folder,
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=4 * BATCH,
        save_strategy="steps",
        save_steps=SAVE_EVERY,
        save_total_limit=2,
        eval_strategy="steps",
        eval_steps=SAVE_EVERY,
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        lr_scheduler_type="constant",
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        dataloader_pin_memory=False,
        seed=7,
    )
    return Diverging(
        model,
        arguments,
        train_dataset=Examples(0, EXAMPLES),
        eval_dataset=Examples(1000, 4 * BATCH),
        callbacks=list(callbacks),
        optimizers=(optimizer(model), None),
    )


def reference(_: str) -> Curve:
    with tempfile.TemporaryDirectory() as folder:
        training = trainer(folder)
        training.train()
        return training.curve


def train(uri: str) -> dict[str, int]:
    """Returns the steps of the last and of the best checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        training = trainer(folder, Mirror(uri), Stop())
        training.train()
        best = int(training.state.best_model_checkpoint.rpartition("-")[2])
        return {"last": training.state.global_step, "best": best}


def resume(uri: str) -> dict[int, Curve]:
    """From every checkpoint in the bucket, on a new machine: {step: losses after it}."""
    files = s3fs.S3FileSystem()
    names = {path.split("/")[-2] for path in files.find(uri) if path.endswith("/trainer_state.json")}
    curves = {}
    for name in sorted(names):
        with tempfile.TemporaryDirectory() as folder:
            files.get(f"{uri}/{name}/", f"{folder}/{name}/", recursive=True)
            training = trainer(f"{folder}/out")
            training.train(resume_from_checkpoint=f"{folder}/{name}")
            curves[int(name.rpartition("-")[2])] = training.curve
            shutil.rmtree(f"{folder}/{name}")
    return curves


if __name__ == "__main__":
    run({"reference": reference, "train": train, "resume": resume})
