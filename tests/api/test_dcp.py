"""torch.distributed.checkpoint through DCPWriter and DCPReader: one process, any state, every way to lay it out."""

from __future__ import annotations

import io
import os
import pickle
import warnings

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.filesystem import SerializationFormat

import s4weights
from s4weights.bodies import is_container
from s4weights.codec.errors import ChecksumMismatch, ConfigError
from s4weights.files import unpack_file
from tests.api.states import same

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of torch, about being alone

BOTH = pytest.mark.parametrize("serialization", list(SerializationFormat), ids=lambda one: one.value)


class Dying(s4weights.DCPWriter):
    """Before the last thing that a save does."""

    def finish(self, metadata, results):
        raise OSError("died")


def training_state(seed: int = 0) -> dict[str, object]:
    generator = torch.Generator().manual_seed(seed)
    base = torch.randn(700, 600, generator=generator)
    return {
        "model": {
            "weight": base,
            "transposed": base.t(),
            "part": base[3:9, 10:20],
            "bf16": base.bfloat16(),
            "scalar": torch.tensor(2.5),
            "empty": torch.empty(0, 7),
            "bool": base > 0,
            "complex": torch.complex(base[0], base[1]).conj(),
            "float8": base[:50].to(torch.float8_e4m3fn),
            "int64": torch.arange(1000),
        },
        "step": seed,
        "note": "a word",
    }


def blank(state):
    if isinstance(state, torch.Tensor):
        return torch.zeros(state.shape, dtype=state.dtype)
    return {key: blank(value) for key, value in state.items()} if isinstance(state, dict) else None


def values(state):
    """Without strides, which are those of whoever loads."""
    if isinstance(state, torch.Tensor):
        return state.resolve_conj().contiguous()
    return {key: values(value) for key, value in state.items()} if isinstance(state, dict) else state


def save(state, *target, **options):
    dcp.save(state, storage_writer=s4weights.DCPWriter(*target, **options), no_dist=True)


def load(state, reader):
    found = blank(state)
    dcp.load(found, storage_reader=reader, no_dist=True)
    return found


@BOTH
@pytest.mark.parametrize("step", [None, 3], ids=["folder", "run"])
def test_any_state_comes_back(tmp_path, serialization, step):
    state = training_state()
    save(state, tmp_path / "saved", step=step, serialization_format=serialization)
    assert same(load(state, s4weights.DCPReader(tmp_path / "saved", step=step)), values(state))


def test_what_is_stored_is_a_container_of_what_torch_writes(tmp_path):
    state = training_state()
    save(state, tmp_path / "ours")
    plain = tmp_path / "plain"
    dcp.save(state, storage_writer=dcp.FileSystemWriter(plain), no_dist=True)
    (tmp_path / "unpacked").mkdir()
    (tmp_path / "unpacked/.metadata").write_bytes((tmp_path / "ours/.metadata").read_bytes())
    for path in plain.glob("*.distcp"):
        assert is_container((tmp_path / "ours" / path.name).read_bytes())
        unpack_file(tmp_path / "ours" / path.name, tmp_path / "unpacked" / path.name)
        assert (tmp_path / "ours" / path.name).stat().st_size < 0.95 * path.stat().st_size
    assert same(load(state, dcp.FileSystemReader(tmp_path / "unpacked")), values(state))
    assert same(load(state, s4weights.DCPReader(plain)), values(state))


def test_a_safetensors_shard_is_read_by_safetensors_and_by_torchs_own_reader(tmp_path):
    import safetensors.torch

    state = {"weight": torch.randn(500, 300), "half": torch.randn(7, 3).bfloat16()}
    save(state, tmp_path, serialization_format=SerializationFormat.SAFETENSORS)
    folder = tmp_path / "unpacked"
    folder.mkdir()
    unpack_file(tmp_path / "__0_0.safetensors", folder / "__0_0.safetensors")
    assert same(safetensors.torch.load_file(folder / "__0_0.safetensors"), state)
    assert same(load(state, dcp.HuggingFaceStorageReader(str(folder))), state)


@BOTH
def test_steps_of_a_run_are_deltas_and_are_listed_and_pruned(tmp_path, serialization):
    run = tmp_path / "run"
    weight = torch.randn(900, 1000, generator=torch.Generator().manual_seed(1))
    for step in range(3):
        weight = weight + 1e-6 * torch.randn(900, 1000, generator=torch.Generator().manual_seed(step))
        save({"weight": weight, "step": step}, run, step=step, serialization_format=serialization)
    sizes = [sum(path.stat().st_size for path in (run / f"checkpoints/step-{step}").glob("__*")) for step in range(3)]
    assert sizes[1] < 0.8 * sizes[0]
    assert s4weights.list_checkpoints(run) == [0, 1, 2]
    with pytest.raises(ConfigError, match="DCPReader"):
        s4weights.load_checkpoint(run)
    assert s4weights.prune_checkpoints(run, keep=1) == [0, 1]
    assert sorted(path.name for path in (run / "checkpoints").glob("step-*")) == ["step-2"]
    state = {"weight": weight, "step": 2}
    assert same(load(state, s4weights.DCPReader(run, step=2)), state)


def test_one_that_is_there_is_replaced_only_when_asked_and_never_mixed(tmp_path):
    first, second = training_state(1), training_state(2)
    save(first, tmp_path, step=5)
    with pytest.raises(dcp.api.CheckpointException, match="expected no checkpoint there"):
        save(second, tmp_path, step=5)
    assert same(load(first, s4weights.DCPReader(tmp_path, step=5)), values(first))
    dying = Dying(tmp_path, step=5, overwrite=True)
    with pytest.raises(dcp.api.CheckpointException, match="died"):
        dcp.save(second, storage_writer=dying, no_dist=True)
    assert s4weights.list_checkpoints(tmp_path) == []
    save(second, tmp_path, step=5, overwrite=True)
    assert same(load(second, s4weights.DCPReader(tmp_path, step=5)), values(second))


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_ranks_that_do_not_speak_to_one_another_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="use_collectives: expected True"):
        dcp.save(training_state(), storage_writer=s4weights.DCPWriter(tmp_path / "a"), use_collectives=False)
    assert not (tmp_path / "a").exists()


def test_the_marker_of_a_rank_never_stands_over_new_files(tmp_path):
    first, second = training_state(1), training_state(2)
    dcp.save(first, storage_writer=dcp.FileSystemWriter(tmp_path), use_collectives=False)
    assert names(tmp_path) == {"__0.metadata", "__0_0.distcp"}
    assert same(load(first, s4weights.DCPReader(tmp_path)), values(first))
    with pytest.raises(dcp.api.CheckpointException, match=r"found __0\.metadata"):
        save(second, tmp_path)
    with pytest.raises(dcp.api.CheckpointException, match="died"):
        dcp.save(second, storage_writer=Dying(tmp_path, overwrite=True), no_dist=True)
    with pytest.raises(dcp.api.CheckpointException, match="metadata is None"):
        load(first, s4weights.DCPReader(tmp_path))


@pytest.mark.parametrize("step", [None, 3], ids=["folder", "run"])
def test_what_goes_for_a_new_one_goes_before_it_and_is_only_a_checkpoint(tmp_path, step):
    folder = tmp_path if step is None else tmp_path / "checkpoints/step-3"
    save(training_state(1), tmp_path, step=step)
    (folder / "__1_0.distcp").write_bytes((folder / "__0_0.distcp").read_bytes())
    (folder / "config.json").write_text("mine")
    found = []

    class Looking(s4weights.DCPWriter):
        def write_data(self, plan, planner):
            found.append(names(folder))
            return super().write_data(plan, planner)

    dcp.save(training_state(2), storage_writer=Looking(tmp_path, step=step, overwrite=True), no_dist=True)
    assert found[0] - {".s4weights-calls"} == {"config.json"}
    assert names(folder) == {"config.json", ".metadata", "__0_0.distcp"}


def test_a_step_of_one_file_is_replaced_by_a_sharded_one_only_when_asked(tmp_path):
    state = training_state()
    s4weights.save_checkpoint({"a": 1}, tmp_path, step=5)
    with pytest.raises(dcp.api.CheckpointException, match=r"found checkpoint\.pt"):
        save(state, tmp_path, step=5)
    save(state, tmp_path, step=5, overwrite=True)
    assert names(tmp_path / "checkpoints/step-5") == {".metadata", "__0_0.distcp"}
    assert same(load(state, s4weights.DCPReader(tmp_path, step=5)), values(state))


def test_a_sharded_step_is_replaced_by_one_of_one_file(tmp_path):
    folder = tmp_path / "checkpoints/step-5"
    save(training_state(), tmp_path, step=5)
    with pytest.raises(AttributeError):
        s4weights.save_checkpoint({"bad": lambda: None}, tmp_path, step=5)
    assert names(folder) == {".metadata", "__0_0.distcp"}
    s4weights.save_checkpoint({"a": 1}, tmp_path, step=5)
    assert names(folder) == {"checkpoint.pt"}
    save(training_state(), tmp_path, step=5, overwrite=True)
    s4weights.async_save_checkpoint({"a": 2}, tmp_path, step=5).result()
    assert (names(folder), s4weights.load_checkpoint(tmp_path)) == ({"checkpoint.pt"}, {"a": 2})


class Overtaken(s4weights.DCPWriter):
    """Somebody saves the same step in one file before the last thing that a save does."""

    def finish(self, metadata, results):
        s4weights.save_checkpoint({"a": torch.ones(9)}, self.run, step=3)
        super().finish(metadata, results)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_save_that_another_one_overtook_does_not_become_visible(tmp_path, overwrite):
    writer = Overtaken(tmp_path, step=3, overwrite=overwrite)
    writer.run = tmp_path
    with pytest.raises(dcp.CheckpointException, match="another save has finished since this one began"):
        dcp.save(training_state(), storage_writer=writer)
    assert s4weights.load_checkpoint(tmp_path, step=3)["a"].sum() == 9
    assert names(tmp_path / "checkpoints" / "step-3") == {"checkpoint.pt"}


def test_shards_beside_a_step_in_one_file_are_not_loaded(tmp_path):
    s4weights.save_checkpoint({"a": torch.ones(9)}, tmp_path, step=4)
    save(training_state(), tmp_path, step=3)
    # As a process leaves them that ends right after its one file became visible.
    folder = tmp_path / "checkpoints" / "step-3"
    (folder / "checkpoint.pt").write_bytes((folder.parent / "step-4" / "checkpoint.pt").read_bytes())
    with pytest.raises(dcp.CheckpointException, match="expected a sharded checkpoint, found one file"):
        load(blank(training_state()), s4weights.DCPReader(tmp_path, step=3))


@BOTH
@pytest.mark.parametrize("step", [None, 3], ids=["folder", "run"])
@pytest.mark.parametrize("gains", [True, False])
def test_files_of_two_saves_are_never_loaded_as_one(tmp_path, serialization, step, gains):
    for name, seed in (("a", 1), ("b", 2)):
        weight = torch.randint(0, 256, (500, 400), generator=torch.Generator().manual_seed(seed))
        state = {"weight": weight.float() if gains else weight.to(torch.uint8)}
        save(state, tmp_path / name, step=step, serialization_format=serialization)
    folder = "" if step is None else "checkpoints/step-3"
    (tmp_path / "a" / folder / ".metadata").replace(tmp_path / "b" / folder / ".metadata")
    with pytest.raises(dcp.api.CheckpointException) as caught:
        load(state, s4weights.DCPReader(tmp_path / "b", step=step))
    assert [type(error) for error, _ in caught.value.failures.values()] == [ChecksumMismatch]
    assert "expected the file that .metadata was written with" in str(caught.value)


def test_files_of_two_saves_that_were_unpacked_are_not_loaded_either(tmp_path):
    for name, seed in (("a", 1), ("b", 2)):
        save(training_state(seed), tmp_path / name)
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    (mixed / ".metadata").write_bytes((tmp_path / "a/.metadata").read_bytes())
    unpack_file(tmp_path / "b/__0_0.distcp", mixed / "__0_0.distcp")
    with pytest.raises(dcp.api.CheckpointException, match="expected the file that .metadata was written with"):
        load(training_state(), s4weights.DCPReader(mixed))


def test_a_tensor_of_torchs_own_is_of_the_type_and_shape_that_its_marker_says(tmp_path):
    states = {"a": {"weight": torch.zeros(30, 40)}, "b": {"weight": torch.ones(40, 30)}}
    for name, state in states.items():
        dcp.save(state, storage_writer=dcp.FileSystemWriter(tmp_path / name), no_dist=True)
    (tmp_path / "a/.metadata").replace(tmp_path / "b/.metadata")
    with pytest.raises(dcp.api.CheckpointException, match=r"expected torch.float32 of \[30, 40\] as .metadata says"):
        load(states["a"], s4weights.DCPReader(tmp_path / "b"))


def age(folder):
    """As if all of it were written before the grace period."""
    for path in folder.rglob("*"):
        os.utime(path, (1e9, 1e9))


def test_what_is_left_of_a_save_that_failed_goes_once_nobody_can_be_at_it(tmp_path):
    save(training_state(), tmp_path, step=1)
    folder = tmp_path / "checkpoints/step-1"
    (folder / ".metadata").unlink()
    (folder / "notes.txt").write_text("mine")
    save(training_state(), tmp_path, step=2)
    assert s4weights.list_checkpoints(tmp_path) == [2]
    assert s4weights.prune_checkpoints(tmp_path, keep=5) == []
    assert (folder / "__0_0.distcp").exists()
    age(folder)
    assert s4weights.prune_checkpoints(tmp_path, keep=5) == [1]
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    assert s4weights.list_checkpoints(tmp_path) == [2]


def test_a_save_under_way_outlives_a_pruning(tmp_path):
    state = training_state()

    class Pruned(s4weights.DCPWriter):
        def finish(self, metadata, results):
            s4weights.prune_checkpoints(tmp_path, keep=1)
            super().finish(metadata, results)

    save(state, tmp_path, step=7)
    dcp.save(state, storage_writer=Pruned(tmp_path, step=5), no_dist=True)
    assert s4weights.list_checkpoints(tmp_path) == [5, 7]
    assert same(load(state, s4weights.DCPReader(tmp_path, step=5)), values(state))


def test_the_marker_of_one_rank_makes_no_step_whole_and_is_not_pruned(tmp_path):
    save(training_state(), tmp_path, step=1)
    folder = tmp_path / "checkpoints/step-1"
    (folder / ".metadata").rename(folder / "__0.metadata")
    save(training_state(), tmp_path, step=2)
    age(folder)
    assert s4weights.list_checkpoints(tmp_path) == [2]
    assert s4weights.prune_checkpoints(tmp_path, keep=1) == []
    assert {path.name for path in folder.iterdir()} == {"__0.metadata", "__0_0.distcp"}


def test_a_checkpoint_id_is_another_folder_or_another_step(tmp_path):
    state = training_state()
    dcp.save(state, checkpoint_id=tmp_path / "b", storage_writer=s4weights.DCPWriter(tmp_path / "a"), no_dist=True)
    assert same(load(state, s4weights.DCPReader(tmp_path / "b")), values(state))
    dcp.save(state, checkpoint_id="7", storage_writer=s4weights.DCPWriter(tmp_path / "run", step=1), no_dist=True)
    assert s4weights.list_checkpoints(tmp_path / "run") == [7]
    with pytest.raises(ConfigError, match="expected a step of the run"):
        s4weights.DCPReader(tmp_path / "run", step=1).reset("a/path")


def test_an_async_save_holds_the_state_of_the_call(tmp_path):
    weight = torch.zeros(1000, 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        saving = dcp.async_save({"weight": weight}, storage_writer=s4weights.DCPWriter(tmp_path, step=1), no_dist=True)
    weight += 1
    saving.result()
    assert load({"weight": weight}, s4weights.DCPReader(tmp_path, step=1))["weight"].unique().tolist() == [0]


@BOTH
def test_damage_is_never_loaded(tmp_path, serialization):
    state = {"weight": torch.randn(900, 1000)}
    save(state, tmp_path, serialization_format=serialization)
    [path] = tmp_path.glob("__*")
    stored = bytearray(path.read_bytes())
    stored[len(stored) // 2] ^= 1
    path.write_bytes(stored)
    with pytest.raises(dcp.api.CheckpointException) as caught:
        load(state, s4weights.DCPReader(tmp_path))
    assert [type(error) for error, _ in caught.value.failures.values()] == [ChecksumMismatch]


def test_what_safetensors_cannot_hold_is_refused_before_anything_is_written(tmp_path):
    state = {"complex": torch.zeros(10, dtype=torch.complex128)}
    with pytest.raises(dcp.api.CheckpointException, match="expected a type that safetensors has"):
        save(state, tmp_path / "saved", serialization_format=SerializationFormat.SAFETENSORS)
    assert not (tmp_path / "saved").exists()


def test_a_piece_of_another_length_than_it_was_to_have_is_an_error(tmp_path):
    from s4weights.api.dcp_layout import File, Piece
    from s4weights.codec.errors import S4WeightsError

    with pytest.raises(S4WeightsError, match="expected to end at byte 5, found 4"):
        File(".distcp", [Piece(None, b"four", 5)]).write(io.BytesIO())


@pytest.mark.parametrize("step", [None, 4])
def test_a_writer_goes_to_the_process_that_saves_in_the_background(tmp_path, step):
    writer = s4weights.DCPWriter(tmp_path / "saved", step=step, level="small")
    again = pickle.loads(pickle.dumps(writer))
    assert (again.files, again.checkpoint_id) == (writer.files, writer.checkpoint_id)
    state = {"weight": torch.randn(300, 100)}
    dcp.save(state, storage_writer=again, no_dist=True)
    assert same(load(state, s4weights.DCPReader(tmp_path / "saved", step=step)), state)
