from .backend.base import TEMPORARY_FOLDER, Backend
from .backend.by_address import check_address, open_backend
from .backend.clock import store_time
from .backend.counted import Counted
from .backend.dry_run import DryRun
from .backend.local import LocalBackend, make_folder
from .backend.odd_files import NO_FILE, is_no_file, odd_is_damage
from .backend.overlay import Overlay
from .backend.probe import probe_exclusive_create
from .condemned.log import CondemnedLog
from .condemned.record import CondemnedRecord, Standing
from .manifests import (
    MANIFEST_FOLDER,
    MAX_ANCESTORS,
    MAX_PACKS,
    DataDrop,
    KnownManifests,
    Line,
    ListedManifests,
    Manifest,
    Manifests,
    Placement,
    WrittenCommit,
    decode_placement,
    encode_placement,
    manifest_path,
    parse_path,
)
from .packs.entry import EntryBase, read_entry
from .packs.footer import Footer, Placed, preview_error
from .packs.pack import MAX_FILE, check_header, name_of
from .packs.written_commit import LastEntry
from .reading.flipped_bits import turned_back
from .reading.inspection import Inspection, inspect_pack
from .reading.located import ChunkPlace, Located, Run
from .reading.objects import ObjectStore
from .reading.pack_files import (
    COPY_HINT,
    EXACT_FOLDER,
    FETCH_HINT,
    PARALLEL_READERS,
    UNREADABLE_ERRORS,
    VALUE_FOLDER,
    how_to_get_back,
    pack_name,
    pack_path,
    read_footer,
)
from .reading.patrol import Patrol, PatrolPosition
from .reading.present_packs import exact_packs, is_whole_pack, value_packs
from .reading.restore_cost import RestoreCost, RestoreRates, links_behind
from .reading.salvage import Salvage, last_entry, salvage
from .reading.unread import UnreadStore
from .upgrades import (
    CONDEMNED_PACKS,
    DROPPED_DATA,
    KNOWN,
    has_upgrade,
    read_upgrades,
    refuse_changes,
    refuse_upgraded,
    upgrade,
)
from .writing.chain_limits import RestoreLimits
from .writing.code_prices import payload_bytes
from .writing.coding_worth import CodingWorth
from .writing.kept_packs import pack_fits
from .writing.near_bases import Near
from .writing.rebuilt_pack import RebuiltPack, rebuild_pack
from .writing.rewriter import Rewriter
from .writing.writer import ObjectWriter, StoredCodes

__all__ = [
    "CONDEMNED_PACKS",
    "COPY_HINT",
    "DROPPED_DATA",
    "EXACT_FOLDER",
    "FETCH_HINT",
    "KNOWN",
    "MANIFEST_FOLDER",
    "MAX_ANCESTORS",
    "MAX_FILE",
    "MAX_PACKS",
    "NO_FILE",
    "PARALLEL_READERS",
    "TEMPORARY_FOLDER",
    "UNREADABLE_ERRORS",
    "VALUE_FOLDER",
    "Backend",
    "ChunkPlace",
    "CodingWorth",
    "CondemnedLog",
    "CondemnedRecord",
    "Counted",
    "DataDrop",
    "DryRun",
    "EntryBase",
    "Footer",
    "Inspection",
    "KnownManifests",
    "LastEntry",
    "Line",
    "ListedManifests",
    "LocalBackend",
    "Located",
    "Manifest",
    "Manifests",
    "Near",
    "ObjectStore",
    "ObjectWriter",
    "Overlay",
    "Patrol",
    "PatrolPosition",
    "Placed",
    "Placement",
    "RebuiltPack",
    "RestoreCost",
    "RestoreLimits",
    "RestoreRates",
    "Rewriter",
    "Run",
    "Salvage",
    "Standing",
    "StoredCodes",
    "UnreadStore",
    "WrittenCommit",
    "check_address",
    "check_header",
    "decode_placement",
    "encode_placement",
    "exact_packs",
    "has_upgrade",
    "how_to_get_back",
    "inspect_pack",
    "is_no_file",
    "is_whole_pack",
    "last_entry",
    "links_behind",
    "make_folder",
    "manifest_path",
    "name_of",
    "odd_is_damage",
    "open_backend",
    "pack_fits",
    "pack_name",
    "pack_path",
    "parse_path",
    "payload_bytes",
    "preview_error",
    "probe_exclusive_create",
    "read_entry",
    "read_footer",
    "read_upgrades",
    "rebuild_pack",
    "refuse_changes",
    "refuse_upgraded",
    "salvage",
    "store_time",
    "turned_back",
    "upgrade",
    "value_packs",
]
