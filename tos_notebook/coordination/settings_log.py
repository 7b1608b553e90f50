"""The settings of a run by version, for as long as a worker may push under them.

Pure state: no locks, no sockets.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..errors import RemoteProtocolError
from .settings import Settings


class SettingsLog:
    """The versions of a run's settings that some worker may still use.

    Parameters
    ----------
    settings : Settings
        Version 0.

    Attributes
    ----------
    settings : Settings
        The newest.
    version : int
        Their version.
    used : Settings
        The newest under which a worker has pushed.
    """

    def __init__(self, settings: Settings) -> None:
        # Replaced, not changed: connections look versions up without the run's lock.
        self._versions = {0: settings}
        self.settings = settings
        self.version = self._used = 0
        self.used = settings

    def use(self, version: int) -> None:
        """Note that a worker has pushed under a version."""
        if version > self._used and (settings := self.find(version)) is not None:
            self._used, self.used = version, settings

    def change(self, needed: Collection[int], **changes: Any) -> None:
        """Add a version.

        Parameters
        ----------
        needed : collection of int
            The earlier versions that some worker may still use. All others are dropped.
        **changes
            See `Settings.changed`.

        Raises
        ------
        ConfigError
            The settings do not go together; nothing was changed.
        """
        version, settings = self.version + 1, self.settings.changed(**changes)
        kept = {v: earlier for v, earlier in self._versions.items() if v in needed}
        self._versions = kept | {version: settings}
        self.version, self.settings = version, settings

    def find(self, version: int) -> Settings | None:
        """Return a version of the settings; None if no worker may still use it."""
        return self._versions.get(version)

    def get(self, version: int) -> Settings:
        """Return the settings under which a worker prepared its push.

        Raises
        ------
        RemoteProtocolError
            The version is unknown, or no worker may still use it.
        """
        settings = self.find(version)
        if settings is None:
            raise RemoteProtocolError(
                f"Push.settings_version: expected {self.version} or one that the worker was told, "
                f"got {version}."
            )
        return settings
