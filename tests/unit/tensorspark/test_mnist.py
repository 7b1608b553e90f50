from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.data.idx_files import idx_bytes, pixels
from tos_notebook.errors import DataError
from tos_notebook.tensorspark import mnist

TRAIN, TEST = pixels(30, seed=1), pixels(12, seed=2)
TRAIN_LABELS, TEST_LABELS = np.arange(30, dtype=np.uint8) % 10, np.arange(12, dtype=np.uint8) % 7

FILES = {
    "train-images-idx3-ubyte.gz": gzip.compress(idx_bytes(TRAIN)),
    "train-labels-idx1-ubyte.gz": gzip.compress(idx_bytes(TRAIN_LABELS)),
    "t10k-images-idx3-ubyte": idx_bytes(TEST),
    "t10k-labels-idx1-ubyte": idx_bytes(TEST_LABELS),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.fixture(autouse=True)
def unset_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(mnist.ENVIRONMENT, raising=False)
    monkeypatch.setattr(mnist, "_data_dir", None)


def joined(sc: Any, images: str, labels: str, one_hot: bool = True) -> list[Any]:
    image_rdd = mnist.extract_images(sc, images)
    label_rdd = mnist.extract_labels(sc, labels, num_class=10, one_hot=one_hot)
    pairs = image_rdd.join(label_rdd, numPartitions=2)
    return pairs.mapPartitions(mnist.flatten_image_label).collect()


def check_pairs(records: list[Any], images: Any, labels: Any) -> None:
    """Check that the records are exactly these images, each with its own label."""
    expected = {image.tobytes(): label for image, label in zip(images, labels, strict=True)}
    found = {
        np.rint(image * 255).astype(np.uint8).tobytes(): label.argmax() for image, label in records
    }
    assert len(records) == len(expected)
    assert found == expected


def test_images_and_labels_join_into_records(spark_context: Any, folder: Path) -> None:
    mnist.set_data_dir(folder)
    records = joined(spark_context, mnist.train_image_path, mnist.train_label_path)
    check_pairs(records, TRAIN, TRAIN_LABELS)
    image, label = records[0]
    assert (image.shape, image.dtype, label.shape, label.dtype) == ((12,), "f4", (10,), "f4")
    assert 0 <= image.min() < image.max() <= 1
    assert sorted(label) == [0.0] * 9 + [1.0]


def test_a_directory_of_all_four_files_pairs_each_image_with_its_label(
    spark_context: Any, folder: Path
) -> None:
    records = joined(spark_context, str(folder), f"file://{folder}/*")
    check_pairs(records, np.concatenate([TRAIN, TEST]), np.concatenate([TRAIN_LABELS, TEST_LABELS]))


def test_files_may_have_any_name_when_they_are_given_one_by_one(
    spark_context: Any, tmp_path: Path
) -> None:
    (tmp_path / "latest.bin").write_bytes(FILES["train-images-idx3-ubyte.gz"])
    (tmp_path / "of_the_images.bin").write_bytes(FILES["train-labels-idx1-ubyte.gz"])
    records = joined(
        spark_context, str(tmp_path / "latest.bin"), str(tmp_path / "of_the_images.bin")
    )
    check_pairs(records, TRAIN, TRAIN_LABELS)


def test_an_archive_unpacked_beside_itself_is_read_once(spark_context: Any, folder: Path) -> None:
    (folder / "train-images-idx3-ubyte").write_bytes(idx_bytes(TRAIN))
    mnist.set_data_dir(folder)
    assert mnist.extract_images(spark_context, mnist.train_image_path).count() == len(TRAIN)


def test_images_stay_uint8_until_they_are_flattened(spark_context: Any, folder: Path) -> None:
    mnist.set_data_dir(folder)
    images = mnist.extract_images(spark_context, mnist.test_image_path).values().collect()
    np.testing.assert_array_equal(images, TEST.reshape(12, -1))
    assert images[0].dtype == np.uint8


def test_labels_without_one_hot_are_integers(spark_context: Any, folder: Path) -> None:
    mnist.set_data_dir(folder)
    labels = mnist.extract_labels(spark_context, mnist.test_label_path, 10, one_hot=False)
    assert labels.values().collect() == TEST_LABELS.tolist()


def test_flattening_undoes_the_order_of_a_shuffle() -> None:
    shuffled = [(i, (np.full((2, 2), i, np.uint8), i)) for i in (3, 1, 2)]
    assert [label for _, label in mnist.flatten_image_label(iter(shuffled))] == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("train_image_path", "train-images?idx3-ubyte*"),
        ("test_label_path", "t10k-labels?idx1-ubyte*"),
    ],
)
def test_paths_come_from_set_data_dir_or_else_from_the_environment(
    name: str, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(mnist.ENVIRONMENT, "/data")
    assert getattr(mnist, name) == f"/data/{pattern}"
    mnist.set_data_dir("hdfs://host/mnist/")
    assert getattr(mnist, name) == f"hdfs://host/mnist/{pattern}"


def test_a_path_set_by_the_user_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(mnist.ENVIRONMENT, "/data")
    mnist.train_image_path = "s3a://bucket/mine.gz"
    try:
        assert mnist.train_image_path == "s3a://bucket/mine.gz"
    finally:
        del mnist.train_image_path
    assert mnist.train_image_path.startswith("/data/")


def test_a_path_that_nobody_set_says_how_to_set_it() -> None:
    with pytest.raises(DataError, match=r"train_image_path is not set.*TOS_MNIST_DIR"):
        _ = mnist.train_image_path


def test_the_module_has_no_other_magic_attributes() -> None:
    assert not hasattr(mnist, "validation_image_path")


def test_missing_files_are_found_out_before_any_job(spark_context: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"No image file at .*nowhere"):
        mnist.extract_images(spark_context, str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="No label file at"):
        mnist.extract_labels(spark_context, str(tmp_path), 10, one_hot=True)


def test_two_files_of_one_kind_are_refused(spark_context: Any, folder: Path) -> None:
    (folder / "more-images").write_bytes(idx_bytes(TRAIN))
    with pytest.raises(DataError, match=r"Several train image files .*cannot be paired"):
        mnist.extract_images(spark_context, str(folder))


@pytest.mark.parametrize(
    ("extract", "message"),
    [
        (
            lambda sc, path: mnist.extract_images(sc, f"{path}/t10k-labels*"),
            r"expected images, got values of shape \(12,\)",
        ),
        (
            lambda sc, path: mnist.extract_labels(sc, f"{path}/t10k-images*", 10, True),
            r"expected one integer for each image, got uint8 of shape \(12, 4, 3\)",
        ),
        (
            lambda sc, path: mnist.extract_labels(sc, f"{path}/t10k-labels*", 5, True),
            r"expected labels in 0\.\.4, got 0\.\.6",
        ),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(
    spark_context: Any, folder: Path, extract: Any, message: str
) -> None:
    with pytest.raises(Exception, match=r"DataError: .*t10k-\w+-idx\d-ubyte: " + message):
        extract(spark_context, folder).collect()
