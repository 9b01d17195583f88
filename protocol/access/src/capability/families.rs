//! The smaller families: variables, node pools, host volumes, operator, plugins, Sentinel.

use crate::capability::capabilities;

capabilities! {
    /// A right on the variables below a path.
    VariableCapability {
        Deny = 0 "deny",
        List = 1 "list",
        Read = 2 "read",
        Write = 3 "write",
        Destroy = 4 "destroy",
    }
    // A path has no `policy`, only `capabilities`.
    levels: &[];
    implied: &[(Self::Read, &[Self::List])];
}

capabilities! {
    /// A right on a node pool.
    NodePoolCapability {
        Deny = 0 "deny",
        Read = 1 "read",
        Write = 2 "write",
        Delete = 3 "delete",
    }
    levels: &[
        ("deny", &[Self::Deny]),
        ("read", &[Self::Read]),
        ("write", &[Self::Delete, Self::Read, Self::Write]),
    ];
    implied: &[];
}

capabilities! {
    /// A right on the host volumes of a name.
    HostVolumeCapability {
        Deny = 0 "deny",
        MountReadonly = 1 "mount-readonly",
        MountReadwrite = 2 "mount-readwrite",
    }
    levels: &[
        ("deny", &[Self::Deny]),
        ("read", &[Self::MountReadonly]),
        ("write", &[Self::MountReadonly, Self::MountReadwrite]),
    ];
    implied: &[];
}

capabilities! {
    /// A right of operators beside the levels read and write, which are a [`crate::Level`].
    OperatorCapability {
        Deny = 0 "deny",
        SnapshotSave = 1 "snapshot-save",
        LicenseRead = 2 "license-read",
        KeyringRotate = 3 "keyring-rotate",
        KeyringRead = 4 "keyring-read",
        KeyringDelete = 5 "keyring-delete",
    }
    levels: &[
        ("deny", &[Self::Deny]),
        ("read", &[Self::LicenseRead, Self::KeyringRead]),
        ("write", &[
            Self::SnapshotSave,
            Self::LicenseRead,
            Self::KeyringRotate,
            Self::KeyringRead,
            Self::KeyringDelete,
        ]),
    ];
    implied: &[];
}

capabilities! {
    /// A right on CSI plugins.
    PluginCapability {
        Deny = 0 "deny",
        List = 1 "list",
        Read = 2 "read",
    }
    levels: &[
        ("deny", &[Self::Deny]),
        ("list", &[Self::List]),
        ("read", &[Self::Read, Self::List]),
        // Nomad accepts the word and gives nothing for it.
        ("write", &[]),
    ];
    implied: &[];
}

capabilities! {
    /// A right on Sentinel policies, which Drover stores for nobody: kept for Nomad's documents.
    SentinelCapability {
        Deny = 0 "deny",
        Read = 1 "sentinel-read",
        Submit = 2 "sentinel-submit",
        Delete = 3 "sentinel-delete",
    }
    levels: &[
        ("deny", &[Self::Deny]),
        ("read", &[Self::Read]),
        ("write", &[Self::Read, Self::Submit, Self::Delete]),
    ];
    implied: &[];
}
