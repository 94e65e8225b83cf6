"""Single zstd frames whose decoded length is known before anything is allocated."""

import zstandard

from mvcs.delta.buffers import Buffer, as_array
from mvcs.errors import CorruptionError

_SMALLEST_WINDOW = 1 << 10


def compress(content: Buffer, level: int) -> bytes:
    """Return one frame that states its content size and carries no checksum: chunks are hashed anyway."""
    compressor = zstandard.ZstdCompressor(level=level, write_content_size=True, write_checksum=False)
    return compressor.compress(as_array(content).data)


def decompress(frame: Buffer, length: int) -> bytes:
    """Return the content of one frame of exactly `length` bytes.

    Raises:
        CorruptionError: it is no frame, states another size, or is followed by more bytes.
    """
    data = as_array(frame).data
    try:
        if zstandard.frame_content_size(data) != length:
            raise CorruptionError("a zstd frame does not state the expected size")
        decompressor = zstandard.ZstdDecompressor(max_window_size=max(_SMALLEST_WINDOW, 2 * length))
        content = decompressor.decompress(data, max_output_size=length, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CorruptionError(f"a zstd frame cannot be decoded: {error}") from error
    return content
