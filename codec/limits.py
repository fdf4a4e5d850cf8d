"""Every bound of the codec, with its unit and its reason. Readers check lengths against these first."""

from __future__ import annotations

from typing import Final

# A frame is the unit of a range read and of verification: large enough that its header and its
# frequency tables stay under 0.1 %, small enough that a range of a few bytes decodes quickly.
FRAME_BYTES: Final = 1 << 20

# What a reader accepts. Sixteen times what we write, so that a later writer may choose larger frames.
MAX_FRAME_BYTES: Final = 16 << 20

# Typed runs below this become bytes: a frame header and tables of their own would cost more than they save.
MIN_TYPED_BYTES: Final = 4 << 10

# Bytes between short runs of one type that make them one run: a legacy torch file has a count of 8 before each storage.
# Those of a zip's entries are more, and as elements would cost what the planes gain.
MAX_GAP_BYTES: Final = 8

# A typed frame that has reached this ends where its tensor ends, so that each tensor has its own
# frequency table; shorter ones go on into the next tensor of the same type.
MIN_TENSOR_FRAME_BYTES: Final = 64 << 10

# Below this, columns are taken together with the dimension before them: convolutions end in 3 x 3.
MIN_COLUMNS: Final = 16
# And above this there are none: a frame would hold few rows of so many, and levels are not tried.
MAX_COLUMNS: Final = 65_536

# What `sniff` looks at. A torch.save zip names its first entry within 30 + 65535 bytes, in practice in 200; in front of the
# numbers of a format that we do not know may lie a header.
SNIFF_BYTES: Final = 64 << 10

# Headers in the wild reach 126 MB (1.29 million tensors).
MAX_SAFETENSORS_HEADER_BYTES: Final = 128 << 20
# Brackets, braces and commas of a header: a value costs some 64 bytes however short its text. Those 1.29 million
# tensors have 10 million.
MAX_SAFETENSORS_VALUES: Final = 16 << 20

# data.pkl of a torch.save zip: tensors' names and shapes, some hundred bytes each.
MAX_PICKLE_BYTES: Final = 128 << 20
# A tensor takes some 25 opcodes, so this is 120,000 tensors; a hostile opcode costs up to 190 bytes, so 570 MB.
MAX_PICKLE_OPS: Final = 3_000_000
MAX_PICKLE_DEPTH: Final = 1_000
# Pickle writes a container's items in batches of 1,000; only a tuple's lie on the stack all at once.
MAX_PICKLE_STACK: Final = 1_000_000
MAX_PICKLE_MEMO: Final = 4_000_000
MAX_STORAGES: Final = 8_000_000

# Entries of zips, records of their directories, files one behind another, and what looked like the end of an entry and was
# none: some microseconds each. A .distcp of 100,000 tensors takes 1.5 million.
MAX_PARSER_STEPS: Final = 3_000_000

# numpy refuses to read headers of more than 10,000 bytes unless it is told to.
MAX_NPY_HEADER_BYTES: Final = 64 << 10

# A vocabulary of 256,000 tokens with its merges takes some 10 MiB.
MAX_GGUF_HEADER_BYTES: Final = 256 << 20
# Models have some thousand tensors and some hundred pairs of metadata.
MAX_GGUF_TENSORS: Final = 100_000
MAX_GGUF_PAIRS: Final = 100_000

# One tensor's member of a safetensors header, where it is not written as the library does; longer ones are metadata.
MAX_SAFETENSORS_MEMBER_BYTES: Final = 64 << 10

# The index's uncompressed bytes: 8 a frame, and the segment table. Enough for 16 TiB of frames.
MAX_INDEX_BYTES: Final = 256 << 20
# Brackets, braces and commas of the index's JSON, some 64 bytes each when read: 200,000 rows have some 10 each.
MAX_INDEX_VALUES: Final = 4_000_000
# Rows of the segment table that an index keeps. It is for people (inspect), not needed to decode.
MAX_INDEX_SEGMENTS: Final = 200_000

# Bodies behind one another that a reader goes through; a writer stops at MAX_CHAIN, since each is more to read.
MAX_BASE_DEPTH: Final = 64
MAX_CHAIN: Final = 8
# Bodies that one container refers to.
MAX_BASES: Final = 64
# Tensors of a body that later ones may equal, some 300 bytes each.
MAX_TWINS: Final = 50_000

# Freed memory that a thread's arena keeps: some frames, their payloads and what encoders write ahead.
KEPT_BYTES: Final = 16 << 20

# What a device works on at once: enough chunks for all of a GPU, little enough that a frame waits some milliseconds.
GPU_BATCH_BYTES: Final = 32 << 20
# Batches under way: one goes up, one is coded, one comes down.
GPU_SLOTS: Final = 3
# Of the device's memory, which is the training's: two buffers a slot, and what the kernels need for one batch.
GPU_MEMORY_BYTES: Final = 320 << 20
# A batch waits for so long until it is full; some frames' time on the processor.
GPU_GATHER_S: Final = 0.002
# Below this a frame costs more on the way than the processor takes.
MIN_GPU_FRAME_BYTES: Final = 64 << 10
# A device that does not answer for so long is given up. A batch takes some milliseconds; the first one compiles kernels.
# Below the 30 s after which the watchdog ends a service whose codec stands still.
GPU_PATIENCE_S: Final = 25.0
