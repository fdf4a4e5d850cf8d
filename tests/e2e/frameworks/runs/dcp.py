"""torch.distributed.checkpoint by s3torchconnector: a loop of one's own that keeps the last two checkpoints and the best."""

from __future__ import annotations

import s3fs
import torch
import torch.distributed.checkpoint as dcp
from s3torchconnector import S3ClientConfig
from s3torchconnector.dcp import S3StorageReader, S3StorageWriter
from training import LAST_STEP, SAVE_EVERY, STEPS, Model, direction, held_out, optimizer, run, set_up, tokens

REGION = "us-east-1"
CLIENT = S3ClientConfig(force_path_style=True)
Curve = dict[int, str]


class Run:
    """Model, optimizer and where they are."""

    def __init__(self) -> None:
        set_up()
        self.model = Model()
        self.optimizer = optimizer(self.model)
        self.step = 0

    def state(self) -> dict[str, object]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "step": self.step}

    def advance(self) -> str:
        """One update. Returns the loss, all its bits."""
        loss = direction(self.step) * self.model(tokens(self.step))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.step += 1
        return loss.item().hex()

    def held_out_loss(self) -> float:
        with torch.no_grad():
            return self.model(held_out()).item()

    def save(self, uri: str) -> None:
        writer = S3StorageWriter(REGION, f"{uri}/step-{self.step}", s3client_config=CLIENT)
        dcp.save(self.state(), storage_writer=writer, no_dist=True)

    def load(self, uri: str, step: int) -> None:
        self.advance()  # gives the optimizer the state that is to be filled
        state = self.state()
        reader = S3StorageReader(REGION, f"{uri}/step-{step}", s3client_config=CLIENT)
        dcp.load(state, storage_reader=reader, no_dist=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = int(state["step"])
        assert self.step == step

    def finish(self) -> Curve:
        return {step: self.advance() for step in range(self.step, STEPS)}


def reference(_: str) -> Curve:
    return Run().finish()


def train(uri: str) -> dict[str, int]:
    """Save, and rotate. Returns the steps of the last and of the best checkpoint."""
    files = s3fs.S3FileSystem()
    run, kept = Run(), {}
    while run.step < LAST_STEP:
        run.advance()
        if run.step % SAVE_EVERY == 0:
            run.save(uri)
            kept[run.step] = run.held_out_loss()
            gone = set(kept) - set(sorted(kept)[-2:]) - {min(kept, key=kept.get)}
            for step in gone:
                files.rm(f"{uri}/step-{step}", recursive=True)
                del kept[step]
    return {"last": max(kept), "best": min(kept, key=kept.get)}


def resume(uri: str) -> dict[int, Curve]:
    """From every checkpoint there is: {step: losses after it}."""
    files = s3fs.S3FileSystem()
    curves = {}
    # Not by `ls`: some servers go on listing folders that are empty.
    saved = [path.split("/")[-2] for path in files.find(uri) if path.endswith("/.metadata")]
    for step in sorted(int(name.rpartition("-")[2]) for name in saved):
        run = Run()
        run.load(uri, step)
        curves[step] = run.finish()
    return curves


if __name__ == "__main__":
    run({"reference": reference, "train": train, "resume": resume})
