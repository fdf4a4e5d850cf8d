"""Keys of every framework in KEYS order: which step they are of, and which key came before."""

from __future__ import annotations

import pytest

from s4weights.proxy.lineage.steps import is_pointer, parse_step, with_part

# (key, its order, the key of the step before, keys that are none)
RUNS = [
    (
        "run-X/checkpoint-500/model-00001-of-00002.safetensors",
        (500,),
        "run-X/checkpoint-90/model-00001-of-00002.safetensors",
    ),
    ("out/checkpoint-500/optimizer.pt", (500,), "out/checkpoint-499/optimizer.pt"),
    (
        "out/checkpoint-50/global_step50/zero_pp_rank_0_mp_rank_00_optim_states.pt",
        (50,),
        "out/checkpoint-9/global_step9/zero_pp_rank_0_mp_rank_00_optim_states.pt",
    ),
    (
        "checkpoints/checkpoint_3/pytorch_model_fsdp_0/__0_0.distcp",
        (3,),
        "checkpoints/checkpoint_2/pytorch_model_fsdp_0/__0_0.distcp",
    ),
    ("logs/epoch=3-step=400.ckpt", (400, 3), "logs/epoch=2-step=300.ckpt"),
    ("logs/3-400-val_loss=0.12.ckpt", (400, 3), "logs/2-300-val_loss=0.3.ckpt"),
    (
        "n/name--val_loss=0.5-step=300-consumed_samples=4000.0.ckpt",
        (300,),
        "n/name--val_loss=12.25-step=9-consumed_samples=40.ckpt",
    ),
    ("global_step20/mp_rank_00_model_states.pt", (20,), "global_step3/mp_rank_00_model_states.pt"),
    ("iter_0000100/mp_rank_00/model_optim_rng.pt", (100,), "iter_0000099/mp_rank_00/model_optim_rng.pt"),
    ("checkpoint/step-50/__3_0.distcp", (50,), "checkpoint/step-40/__3_0.distcp"),
    ("epoch_2/ft-model-00001-of-00002.safetensors", (2,), "epoch_1/ft-model-00001-of-00002.safetensors"),
    ("ep3-ba200-rank0.pt", (200, 3), "ep1-ba30-rank0.pt"),
    ("global_step_40/actor/model_world_size_8_rank_3.pt", (40,), "global_step_30/actor/model_world_size_8_rank_3.pt"),
    ("step1000/model/x.pt", (1000,), "step500/model/x.pt"),
    ("checkpoint_3_4000.pt", (4000, 3), "checkpoint_3_3000.pt"),
    ("checkpoint-7.pth.tar", (7,), "checkpoint-6.pth.tar"),
    ("iter_12.pth", (12,), "iter_8.pth"),
    ("model_0004999.pth", (4999,), "model_0000999.pth"),
    ("weights/epoch3.pt", (3,), "weights/epoch2.pt"),
    ("v2.1/step=7.ckpt", (7,), "v2.1/step=6.ckpt"),
]


@pytest.mark.parametrize(("key", "order", "before"), RUNS, ids=[run[0] for run in RUNS])
def test_the_step_before_is_found(key: str, order: tuple[int, ...], before: str) -> None:
    step = parse_step(key)
    assert step is not None
    assert step.order == order
    assert step.before([key, "another/thing.pt", before]) == [before]


@pytest.mark.parametrize(("key", "order", "before"), RUNS, ids=[run[0] for run in RUNS])
def test_a_listing_of_one_folder_is_enough_to_name_it(key: str, order: tuple[int, ...], before: str) -> None:
    step = parse_step(key)
    assert step is not None
    assert before.startswith(step.listed)
    part = before.removeprefix(step.listed).partition("/")[0]
    assert with_part(step, part) == before


def test_numbers_are_compared_as_numbers_the_latest_first() -> None:
    step = parse_step("r/checkpoint-10000/model.safetensors")
    assert step is not None
    keys = [f"r/checkpoint-{n}/model.safetensors" for n in (9, 9900, 20000, 10000, 100)]
    assert step.before(keys) == [f"r/checkpoint-{n}/model.safetensors" for n in (9900, 100, 9)]


def test_another_rank_shard_or_run_is_no_predecessor() -> None:
    for key, other in [
        ("r/step-2/__1_0.distcp", "r/step-1/__0_0.distcp"),
        ("r/checkpoint-2/model-00001-of-00002.safetensors", "r/checkpoint-1/model-00002-of-00002.safetensors"),
        ("r/checkpoint-2/model.safetensors", "s/checkpoint-1/model.safetensors"),
        ("ep2-ba2-rank0.pt", "ep1-ba1-rank1.pt"),
        ("out/checkpoint-5/global_step5/x.pt", "out/checkpoint-4/global_step3/x.pt"),
    ]:
        step = parse_step(key)
        assert step is not None
        assert step.before([other]) == []


@pytest.mark.parametrize(
    "key",
    [
        "tmp-checkpoint-5/model.safetensors",
        "x/.tmp/step-5/a.pt",
        "a/step-4-unfinished",
        "latest-rank0.pt.symlink",
        "latest_checkpointed_iteration.txt",
        "model.safetensors",
        "checkpoint.pt",
        "a/7b/weights.bin",
        "x/val_loss=0.5.ckpt",
    ],
)
def test_staging_names_markers_and_keys_without_a_step_have_none(key: str) -> None:
    assert parse_step(key) is None


def test_pointers_are_known_by_their_name() -> None:
    for key in ("r/last.ckpt", "best.pt", "model_best.pth.tar", "r/checkpoint_last.pt", "last-v1.ckpt", "latest.pt"):
        assert is_pointer(key), key
    for key in ("r/fastest.pt", "last/checkpoint-4/model.safetensors", "latest_checkpointed_iteration.txt"):
        assert not is_pointer(key), key
