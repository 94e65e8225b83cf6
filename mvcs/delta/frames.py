"""Single zstd frames whose decoded length is known before anything is allocated."""

import zstandard

from mvcs.delta.buffers import Buffer, as_array
from mvcs.errors import CorruptionError

_SMALLEST_WINDOW = 1 << 10


def compress(content: Buffer, level: int) -> bytes:
    """Return one frame that states its content size and carries no checksum: chunks are hashed anyway."""
    compressor = zstandard.ZstdCompressor(level=level, write_content_size=True, write_checksum=False)
    return compressor.compress(as_array(content).data)


def compress_near(content: Buffer, base: Buffer, level: int) -> bytes:
    """Return one frame that may repeat pieces of `base`, which serves as a dictionary of raw content."""
    data = as_array(content)
    dictionary = _dictionary(base)
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level,
        source_size=data.size,
        dict_size=len(dictionary),
        write_content_size=True,
        write_checksum=False,
        write_dict_id=False,
    )
    compressor = zstandard.ZstdCompressor(dict_data=dictionary, compression_params=parameters)
    return compressor.compress(data.data)


def decompress(frame: Buffer, length: int) -> bytes:
    """Return the content of one frame of exactly `length` bytes.

    Raises:
        CorruptionError: it is no frame, states another size, or is followed by more bytes.
    """
    return _decompressed(frame, length, 2 * length, None)


def decompress_near(frame: Buffer, base: Buffer, length: int) -> bytes:
    """Return the content of one frame of exactly `length` bytes that was compressed near `base`.

    Raises:
        CorruptionError: it is no frame, states another size, or is followed by more bytes.
    """
    window = 2 * (length + as_array(base).size)
    return _decompressed(frame, length, window, _dictionary(base))


def _dictionary(base: Buffer) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(as_array(base).data, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def _decompressed(
    frame: Buffer, length: int, window: int, dictionary: zstandard.ZstdCompressionDict | None
) -> bytes:
    data = as_array(frame).data
    try:
        if zstandard.frame_content_size(data) != length:
            raise CorruptionError("a zstd frame does not state the expected size")
        if zstandard.get_frame_parameters(data).window_size > max(_SMALLEST_WINDOW, window):
            raise CorruptionError("a zstd frame has a larger window than its content needs")
        decompressor = zstandard.ZstdDecompressor(dict_data=dictionary)
        content = decompressor.decompress(data, max_output_size=length, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CorruptionError(f"a zstd frame cannot be decoded: {error}") from error
    return content
