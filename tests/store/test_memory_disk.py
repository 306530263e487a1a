"""What a crash leaves of a disk in memory."""

from headwater.store.memory import ChangeKind, MemoryDisk


def lost(change):
    return None


def kept(change):
    return change.data


def started():
    disk = MemoryDisk()
    file = disk.create("a")
    file.append([b"synced"])
    file.sync()
    disk.sync_directory("")
    return disk, file


def whole(disk, path):
    file = disk.open(path)
    return file.read(0, file.size)


def test_synced_bytes_survive_and_others_do_not():
    disk, file = started()
    file.append([b" lost"])

    image = disk.crashed(lost)

    assert whole(image, "a") == b"synced"
    assert whole(disk, "a") == b"synced lost"


def test_a_lost_write_before_a_kept_one_leaves_zeros():
    disk, file = started()
    file.append([b"one"])
    file.append([b"two"])

    image = disk.crashed(lambda change: None if change.data == b"one" else change.data)

    assert whole(image, "a") == b"synced\0\0\0two"


def test_a_write_can_be_torn():
    disk, file = started()
    file.append([b"0123456789"])

    assert whole(disk.crashed(lambda change: change.data[:3]), "a") == b"synced012"


def test_a_file_whose_directory_was_not_synced_is_lost():
    disk, _ = started()
    disk.create("b").sync()

    assert disk.crashed(lost).listdir("") == ["a"]
    assert disk.crashed(kept).listdir("") == ["a", "b"]


def test_a_rename_that_was_not_synced_may_be_lost():
    disk, _ = started()
    disk.rename("a", "b")

    assert disk.crashed(lost).listdir("") == ["a"]
    assert disk.crashed(kept).listdir("") == ["b"]


def test_an_unlink_that_was_not_synced_may_be_lost():
    disk, _ = started()
    disk.unlink("a")

    assert disk.crashed(lost).listdir("") == ["a"]
    assert disk.crashed(kept).listdir("") == []


def test_a_cut_that_was_not_synced_may_be_lost():
    disk, file = started()
    file.truncate(2)

    assert whole(disk.crashed(lost), "a") == b"synced"
    assert whole(disk.crashed(kept), "a") == b"sy"


def test_a_replaced_file_is_durable_at_once():
    disk, _ = started()

    disk.replace("a", b"new")

    assert whole(disk.crashed(lost), "a") == b"new"
    assert disk.unsynced() == ()


def test_unsynced_changes_are_listed_in_order():
    disk, file = started()
    file.append([b"x"])
    disk.unlink("a")

    assert [change.kind for change in disk.unsynced()] == [ChangeKind.WRITE, ChangeKind.UNLINK]
