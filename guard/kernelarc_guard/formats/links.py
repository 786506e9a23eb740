"""Links among files that somebody else made: none may lead out of their folder; light."""

from pathlib import Path


def refuse_links_out(file: Path, folder: Path) -> None:
    """Raise ValueError, naming the link, where a file that is there in `folder` lies outside of it."""
    root = folder.resolve()
    target = file.resolve()
    if target.is_relative_to(root):
        return
    steps = [one for one in (*reversed(file.parents), file) if one.is_symlink()]
    link = next((one for one in steps if not one.resolve().is_relative_to(root)), file)
    raise ValueError(
        f"{link}: is a link to {target}, outside of {folder}, and is not followed; put the file "
        "itself there (cp -rL copies what links lead to)"
    )
