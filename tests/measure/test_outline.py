"""What a body is made of is known from little of it, and is what the segmenter says of all of it."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from s4weights.codec.encode import Encoder
from s4weights.codec.limits import SNIFF_BYTES
from s4weights.codec.types import ElementType, Kind
from s4weights.measure.components import SMALL, find_components, role_of
from s4weights.measure.outline import outline
from s4weights.measure.sources import FileSource
from tests.codec.samples import safetensors_file, safetensors_raw, torch_file, trained_state
from tests.measure.checkpoints import save_all


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return save_all(tmp_path_factory.mktemp("trained"), width=128, layers=2)


def whole_outline(body: bytes) -> list[list]:
    """From every byte, as the encoder sees it."""
    encoder = Encoder()
    encoder.plan(body)
    encoder.plan_end()
    return [row[:4] for row in encoder.segments]


def rows(about) -> list[list]:
    """As a segment table has them: without bytes that have no name."""
    found = [[one.start, one.length, one.element.name, one.name] for one in about.segments]
    return [row for row in found if row[2:] != ["BYTES", None]]


@pytest.mark.parametrize("name", ["mixed.pt", "bf16.safetensors", "fp32.safetensors"])
def test_a_checkpoint_is_outlined_from_little_of_it(trained, name):
    source = FileSource(trained[name])
    assert rows(outline(source)) == whole_outline(trained[name].read_bytes())
    assert source.read_bytes < 0.1 * source.size


BODIES = {
    "every type, safetensors": safetensors_file(),
    "every type, torch": torch_file(trained_state()),
    "two archives": torch_file({"a": torch.randn(50_000)}) + torch_file({"b": torch.randn(50_000)}),
    "long header": safetensors_raw({"__metadata__": {"x": "y" * 3_000_000}}, b""),
    "cut header": safetensors_raw({"__metadata__": {"x": "y" * 9_000}}, b"")[:6000],
    "cut tensor": safetensors_file()[:100_000],
    "cut archive": torch_file(trained_state())[:300_000],
    "hole": safetensors_raw(
        {"w": {"dtype": "F32", "shape": [9000], "data_offsets": [70_000, 106_000]}}, bytes(200_000)
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_odd_bodies_are_outlined_as_they_are(tmp_path, name):
    (tmp_path / "body").write_bytes(BODIES[name])
    about = outline(FileSource(tmp_path / "body"))
    assert rows(about) == whole_outline(BODIES[name])
    assert about.known_bytes == len(BODIES[name])
    components = find_components([(FileSource(tmp_path / "body"), about)], shapes=2)
    assert sum(one.logical_bytes for one in components) == len(BODIES[name])


@pytest.mark.parametrize(("body", "kind"), [(b"", Kind.UNKNOWN), (b"text" * 5000, Kind.UNKNOWN)])
def test_what_is_not_recognised_has_no_outline(tmp_path, body, kind):
    (tmp_path / "body").write_bytes(body)
    source = FileSource(tmp_path / "body")
    about = outline(source)
    assert (about.kind, about.segments) == (kind, [])
    assert source.read_bytes <= SNIFF_BYTES


def test_pieces_tile_every_component(trained):
    source = FileSource(trained["mixed.pt"])
    components = find_components([(source, outline(source))])
    covered = []
    for component in components:
        pieces = list(component.all_pieces())
        assert len(pieces) == component.pieces
        assert sum(piece.length for piece in pieces) == component.logical_bytes
        at = 0
        for piece in pieces:
            assert component.piece_at(at) == component.piece_at(at + piece.length - 1) == piece
            parts = piece.segments
            assert parts[0].start <= 0 < parts[0].end
            assert parts[-1].start < piece.length <= parts[-1].end
            assert all(one.end == other.start for one, other in pairwise(parts))
            at += piece.length
            covered.append((piece.run.start + piece.offset, piece.length))
    at = 0
    for start, length in sorted(covered):
        assert start == at
        at += length
    assert at == source.size


def test_shapes_are_told_apart_and_the_rest_is_one(trained):
    source = FileSource(trained["fp32.safetensors"])
    about = outline(source)
    large = {one.shape for one in about.segments if one.length >= 64 << 10 and one.element is not ElementType.BYTES}
    assert len(large) == 3
    for shapes, expected in ((0, 1), (1, 2), (2, 3), (9, 3)):
        found = [one for one in find_components([(source, about)], shapes=shapes) if one.role != SMALL]
        assert len(found) == expected
        assert sum(one.logical_bytes for one in found) == sum(
            one.length for one in about.segments if one.shape in large
        )


@pytest.mark.parametrize(
    ("name", "element", "role"),
    [
        ("optimizer.state.0.exp_avg", "F32", "optimizer m"),
        ("optimizer.state.0.exp_avg_sq", "BF16", "optimizer v"),
        ("optim.state.layers.0.weight.momentum_buffer", "F32", "optimizer m"),
        ("optimizer.state.0.step", "F32", "other"),
        ("master.layers.0.weight", "F32", "master weights"),
        ("optimizer_state_dict.single_partition_of_fp32_groups.0", "F32", "master weights"),
        ("optimizer.fp32_from_fp16_params.0", "F32", "master weights"),
        ("model.layers.0.weight", "F16", "model weights"),
        (None, "F32", "model weights"),
        ("model.ids", "I64", "other"),
    ],
)
def test_roles_follow_from_names_and_types(name, element, role):
    from s4weights.codec.types import Segment

    assert role_of(Segment(0, 4, ElementType[element], name)) == role
