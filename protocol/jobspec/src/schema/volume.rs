//! Storage: `volume`, `volume_mount`, `csi_plugin`.

use super::{Schema, block, duration, flag, labelled, schema, text, texts};

pub(super) static VOLUME: Schema = labelled(
    "volume",
    "Name",
    &[
        text("type", "Type"),
        text("source", "Source"),
        flag("read_only", "ReadOnly"),
        flag("sticky", "Sticky"),
        text("access_mode", "AccessMode"),
        text("attachment_mode", "AttachmentMode"),
        flag("per_alloc", "PerAlloc"),
        block("MountOptions", &MOUNT_OPTIONS),
    ],
);

static MOUNT_OPTIONS: Schema = schema(
    "mount_options",
    &[
        text("fs_type", "FSType"),
        texts("mount_flags", "MountFlags"),
    ],
);

pub(super) static VOLUME_MOUNT: Schema = schema(
    "volume_mount",
    &[
        text("volume", "Volume"),
        text("destination", "Destination"),
        flag("read_only", "ReadOnly"),
        text("propagation_mode", "PropagationMode"),
        text("selinux_label", "SELinuxLabel"),
    ],
);

pub(super) static CSI_PLUGIN: Schema = schema(
    "csi_plugin",
    &[
        text("id", "ID"),
        text("type", "Type"),
        text("mount_dir", "MountDir"),
        text("stage_publish_base_dir", "StagePublishBaseDir"),
        duration("health_timeout", "HealthTimeout"),
    ],
);
