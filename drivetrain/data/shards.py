"""One data set: rows become Parquet shards, and those a version in its folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from drivetrain.base.file_locks import make_durable
from drivetrain.data.arrow import Array, Batch, Schema, arrow
from drivetrain.data.fitting import Fitting
from drivetrain.data.increments import EarlierSet, Keeper, KeptFile, take_over
from drivetrain.data.key_sample import KeySample
from drivetrain.data.manifest import MANIFEST_FILE, Column, Manifest, check_shard
from drivetrain.data.profile import PROFILE, WHOLE, Profile, profile_of
from drivetrain.data.shard_files import ShardFiles
from drivetrain.data.statistics import TableStatistics
from drivetrain.data.version_folder import VersionFolder


class ShardWriter(VersionFolder):
    """Writes `part-00000.parquet`, ... and `manifest.json` into the staging folder; `publish` makes a version of them.

    The manifest comes last.
    """

    def __init__(
        self, folder: Path, schema: Schema, *, key: str | None, label: str | None, rows_per_shard: int
    ) -> None:
        super().__init__(folder)
        self.rows = 0
        self.statistics = TableStatistics(schema, label, key=key)
        """Those of the rows of this run; from `finish` on, of all rows of the set."""
        self._earlier: EarlierSet | None = None
        self._profile: Profile
        self._schema = schema
        self._key = key
        self._label = label
        self._files = ShardFiles(self.staging, schema, rows_per_shard, counted=self._count)
        self._fitting: Fitting | None = None
        self._keeper: Keeper | None = None
        self._keys: KeySample | None = None

    def fit(self, fitting: Fitting) -> None:
        """Fit transforms on the rows of this set."""
        self._fitting = fitting

    def sample_keys(self) -> None:
        """Say in the manifest which keys there are, so that other data can be asked for them."""
        if self._key is not None:
            self._keys = KeySample(self._key)

    def keep_state(self) -> None:
        """Keep what the next run goes on from, beside the shards."""
        self._keeper = Keeper(self.staging)

    def continue_from(self, earlier: EarlierSet) -> None:
        """Begin with the shards and the statistics of an earlier set. New rows get shards of their own.

        Raises:
            InputError: a shard does not match the manifest. A shard that is copied, or was changed since its version
                became current, is read to check it. For the others the size is checked, and the new manifest keeps
                their old checksum.
        """
        assert self._keeper
        for shard in earlier.manifest.shards:
            file = earlier.folder / shard.name
            is_copy = take_over(file, self.staging / shard.name)
            if is_copy or file.stat().st_mtime_ns > earlier.since:
                check_shard(
                    self.staging / shard.name if is_copy else file, shard, advice="Leave out previous to prepare all."
                )
            self._files.shards.append(replace(shard, file=shard.name))
        self._keeper.continue_from(earlier)
        self._earlier = earlier
        if self._fitting:
            self._fitting.restore(earlier.statistics["fitting"])
        if self._keys:
            known = earlier.manifest.keys
            where = f"{earlier.folder / MANIFEST_FILE}"
            # An earlier version of drivetrain wrote none: then not all keys are known here either.
            self._keys = KeySample.read(known, where) if known else None
        self.rows = earlier.manifest.rows

    def append(self, batch: Batch, hashes: Array = None) -> None:
        """Take in the next rows, with the hashes of their keys where they have keys."""
        if not batch.num_rows:
            return
        if self._keeper and hashes is not None:
            self._keeper.add(hashes)
        if self._keys:
            self._keys.add(batch.column(self._keys.column))
        self.rows += batch.num_rows
        self._files.append(batch)

    def finish(self) -> None:
        """Write what is pending.

        Raises:
            InputError: a label of too many classes.
        """
        self._files.finish()
        self._profile = Profile.of(self.statistics)
        if self._earlier:
            together = TableStatistics(self._schema, self._label, key=self._key)
            together.restore(self._earlier.statistics)
            together.merge(self.statistics)
            self.statistics = together

    def keep_rows(self, hashes: Any) -> None:
        """Keep what leakage is looked for by in the next rows, where state is kept."""
        if self._keeper:
            self._keeper.add_rows(hashes)

    def keep_compared(self, groups: Mapping[str, Iterable[Any]]) -> None:
        """Say that leakage was looked for, and keep the hashes of groups, where state is kept."""
        if self._keeper:
            self._keeper.compared(groups)

    def stage(
        self,
        lineage: Mapping[str, Any],
        *,
        engine: str = "",
        fitted: Mapping[str, Any] | None = None,
        leakage: Mapping[str, Any] | None = None,
    ) -> Manifest:
        """Write the manifest beside the shards: the new version is whole, and nobody reads it yet."""
        state = {**self.statistics.state(), "fitting": self._fitting.state() if self._fitting else []}
        kept = self._keeper.finish(state) if self._keeper else {}
        kept |= self._profiles(lineage)
        manifest = Manifest(
            key=self._key,
            label=self._label,
            schema=tuple(Column(field.name, str(field.type)) for field in self._schema),
            shards=tuple(self._files.shards),
            statistics=self.statistics.entries(),
            engine=engine or f"pyarrow {arrow().__version__}",
            lineage={**lineage, **kept},
            fitted=fitted or {},
            leakage=leakage or {},
            keys=self._keys.entry() if self._keys else {},
        )
        manifest.write(self.staging / MANIFEST_FILE)
        self.staged(manifest)
        return manifest

    def _profiles(self, lineage: Mapping[str, Any]) -> dict[str, Any]:
        """Write the profiles beside the shards; the entries of the lineage."""
        found = {PROFILE: self._profile}
        earlier = self._earlier
        if earlier:
            found[WHOLE] = Profile.of(self.statistics)
            known = earlier.manifest.lineage
            if PROFILE in known and all(known.get(name) == lineage.get(name) for name in ("sources", "source")):
                # No file is new since: the rows are those of the run before.
                found[PROFILE] = profile_of(earlier.folder)
        entries: dict[str, Any] = {}
        for name, profile in found.items():
            path = self.staging / f"{name}.npz"
            data = profile.to_bytes()
            path.write_bytes(data)
            make_durable(path)
            entries[name] = asdict(KeptFile(path.name, len(data), hashlib.sha256(data).hexdigest()))
        return entries

    def _count(self, group: Any) -> None:
        self.statistics.add(group)
        if self._fitting:
            self._fitting.add(group)

    def discard(self) -> None:
        self._files.close()
        super().discard()
