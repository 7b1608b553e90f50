"""Encoded images and Spark's image struct, as the pixels that a model of images takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import tensorflow as tf

from tos_notebook.archive.spec import FeedSpec
from tos_notebook.blocks.block import ColumnSpec
from tos_notebook.data.arrow import BATCH_BYTES, ArrowDecoder
from tos_notebook.data.arrow_rows import ArrowColumn
from tos_notebook.data.dataframe import columns
from tos_notebook.data.images import bad_images, pixels_of
from tos_notebook.data.source import as_source
from tos_notebook.errors import DataError

Pixels = npt.NDArray[np.uint8]
PIXELS: Pixels = np.random.default_rng(0).integers(0, 256, (6, 5, 3), np.uint8)
GRAY = PIXELS[..., :1]

GIF = bytes.fromhex(
    "47494638396102000100800000ff000000ff00"  # 2 x 1, red and green
    "2c000000000200010000020244 0a003b".replace(" ", "")
)


def png(pixels: Pixels) -> bytes:
    return bytes(tf.io.encode_png(pixels).numpy())


def spec(shape: tuple[int, ...] = (6, 5, 3), dtype: str = "uint8") -> ColumnSpec:
    return ColumnSpec(dtype, shape, "x")


def only(image: Any, wanted: ColumnSpec) -> Any:
    found = pixels_of(pa.array([image]), wanted)
    assert found is not None
    return found[0]


def sparks(pixels: Pixels, **other: Any) -> dict[str, Any]:
    """Return an image as Spark has it: blue first."""
    height, width, channels = pixels.shape
    order = [2, 1, 0, 3][:channels] if channels > 1 else [0]
    fields = {
        "height": height,
        "width": width,
        "nChannels": channels,
        "mode": (channels - 1) << 3,
        "data": pixels[..., order].tobytes(),
    }
    return fields | other


def bmp(pixels: Pixels) -> bytes:
    height, width, _ = pixels.shape
    rows = [row[:, ::-1].tobytes() for row in pixels[::-1]]
    body = b"".join(row + bytes(-len(row) % 4) for row in rows)
    header = b"BM" + (54 + len(body)).to_bytes(4, "little") + bytes(4) + b"\x36\0\0\0\x28\0\0\0"
    size = width.to_bytes(4, "little") + height.to_bytes(4, "little")
    return header + size + b"\1\0\x18\0" + bytes(24) + body


@pytest.mark.parametrize("encode", [png, bmp, sparks], ids=["png", "bmp", "spark"])
def test_an_image_of_the_inputs_size_keeps_its_pixels(encode: Any) -> None:
    np.testing.assert_array_equal(only(encode(PIXELS), spec()), PIXELS)


def test_a_jpeg_and_the_first_picture_of_a_gif_are_what_tensorflow_makes_of_them() -> None:
    jpeg = tf.io.encode_jpeg(PIXELS).numpy()
    np.testing.assert_array_equal(only(jpeg, spec()), tf.io.decode_jpeg(jpeg).numpy())
    gray = tf.io.decode_jpeg(jpeg, channels=1).numpy()
    np.testing.assert_array_equal(only(jpeg, spec((6, 5, 1))), gray)
    np.testing.assert_array_equal(only(GIF, spec((1, 2, 3))), tf.io.decode_gif(GIF).numpy()[0])


@pytest.mark.parametrize("encode", [png, sparks], ids=["png", "spark"])
def test_an_image_gets_the_channels_of_the_input(encode: Any) -> None:
    alpha = np.concatenate([PIXELS, GRAY], -1)
    np.testing.assert_array_equal(only(encode(GRAY), spec()), np.repeat(GRAY, 3, -1))
    np.testing.assert_array_equal(only(encode(alpha), spec()), PIXELS)
    found = only(encode(PIXELS), spec((6, 5, 4)))
    np.testing.assert_array_equal(found[..., :3], PIXELS)
    assert (found[..., 3] == 255).all()
    gray = tf.image.rgb_to_grayscale(PIXELS).numpy().astype(int)
    assert abs(only(encode(PIXELS), spec((6, 5, 1))).astype(int) - gray).max() <= 1


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_an_image_is_scaled_as_keras_scales_it(dtype: str) -> None:
    wanted = tf.image.resize(PIXELS, (3, 9)).numpy()
    found = only(png(PIXELS), spec((3, 9, 3), dtype))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, wanted if dtype == "float32" else np.rint(wanted))


HUGE = png(PIXELS)[:16] + (10**6).to_bytes(4, "big") * 2 + png(PIXELS)[24:]
LARGE_JPEG = tf.io.encode_jpeg(PIXELS).numpy()


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (None, "null"),
        (b"", "0 bytes that are not a JPEG, PNG, BMP or GIF image"),
        (b"text", "4 bytes that are not a JPEG, PNG, BMP or GIF image"),
        (png(PIXELS)[:60], "a broken image"),
        (png(PIXELS)[:12], "a broken image"),
        (LARGE_JPEG[: len(LARGE_JPEG) // 3], "a broken image"),
        (HUGE, "an image of 1000000 x 1000000 pixels"),
        (sparks(PIXELS, mode=-1), "an image of OpenCV's type -1"),
        (sparks(PIXELS, mode=21), "an image of OpenCV's type 21"),
        (sparks(PIXELS, data=b"12"), "2 bytes for an image of shape (6, 5, 3)"),
        (sparks(PIXELS, data=None), "null"),
    ],
)
def test_what_is_no_image_is_a_bad_row(image: Any, reason: str) -> None:
    good = sparks(PIXELS) if isinstance(image, dict) else png(PIXELS)
    array = pa.array([good, image, good])
    assert pixels_of(array, spec()) is None
    assert bad_images(array, spec()) == {1: reason}


def test_a_batch_of_predictions_decodes_no_more_than_its_memory() -> None:
    """Spark's own batches have as many rows, however large their images become."""
    column = ArrowColumn(spec((512, 512, 4), "float32"), (), image=True)
    decoder = ArrowDecoder(None, (column,), None, ordered=True)
    assert decoder.images_at_once == BATCH_BYTES >> 22
    assert ArrowDecoder(None, (), None, ordered=True).images_at_once is None


@pytest.fixture(scope="module")
def spark(spark_context: Any) -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


@pytest.fixture(scope="module")
def pictures(spark: Any) -> Any:
    rows = [(png(PIXELS), 0), (b"broken", 1), (png(GRAY), 2), (None, 3)]
    return spark.createDataFrame(rows, "image binary, number int").coalesce(1)


IMAGES = FeedSpec("x", "float32", (6, 5, 3), part="inputs")
LABEL = FeedSpec("y", "int32", (), part="labels")


def test_images_that_cannot_be_read_are_left_out(pictures: Any, spark_context: Any) -> None:
    source = as_source(
        spark_context,
        columns(pictures, "image", "number", on_bad="skip"),
        1,
        [IMAGES, LABEL],
    )
    ((images, numbers),) = source.tasks(spark_context).collect()
    assert (images.dtype, numbers.tolist()) == (np.float32, [0, 2])
    np.testing.assert_array_equal(images[0], PIXELS)
    assert [(s.column, s.rows, s.first) for s in source.skipped] == [("image", 2, 1)]


def test_a_broken_image_is_named(pictures: Any, spark_context: Any) -> None:
    source = as_source(spark_context, columns(pictures, "image", "number"), 1, [IMAGES, LABEL])
    text = r"Column 'image', partition 0, row 1: expected an image for float32 of shape \(6, 5, 3\)"
    with pytest.raises(Exception, match=text + ", got 6 bytes that are not a JPEG"):
        source.tasks(spark_context).collect()


def test_sparks_own_images_are_fed(spark: Any, spark_context: Any, tmp_path: Any) -> None:
    for name, pixels in (("a", PIXELS), ("b", PIXELS[::-1])):
        (tmp_path / f"{name}.png").write_bytes(png(pixels))
    frame = spark.read.format("image").load(str(tmp_path)).orderBy("image.origin").coalesce(1)
    source = as_source(spark_context, columns(frame, "image"), 1, [IMAGES])
    found = np.concatenate([images for (images,) in source.tasks(spark_context).collect()])
    assert {image.tobytes() for image in found} == {
        pixels.astype(np.float32).tobytes() for pixels in (PIXELS, PIXELS[::-1])
    }


def test_bytes_go_into_an_input_of_strings_as_they_are(pictures: Any, spark_context: Any) -> None:
    source = as_source(
        spark_context,
        columns(pictures, "image", "number", on_bad="skip"),
        1,
        [FeedSpec("x", "string", (), part="inputs"), LABEL],
    )
    ((images, _),) = source.tasks(spark_context).collect()
    assert images.tolist() == [png(PIXELS), b"broken", png(GRAY)]


@pytest.mark.parametrize("shape", [(90,), (6, 5, 2), (None, None, 3), None])
def test_bytes_for_an_input_of_no_image_need_a_shape(
    pictures: Any, spark_context: Any, shape: Any
) -> None:
    feed = FeedSpec("x", "float32", shape, part="inputs")
    with pytest.raises(DataError, match=r"'image' is binary: expected the shape.*'image': \(28"):
        as_source(spark_context, columns(pictures, "image"), 1, [feed])
