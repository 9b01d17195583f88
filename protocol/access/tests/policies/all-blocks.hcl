// One block of every kind.
namespace "*" {
  policy = "read"
  variables {
    path "*" { capabilities = ["list"] }
    path "web/*" { capabilities = ["read", "write"] }
    path "web/db" { capabilities = ["deny"] }
  }
}

namespace "prod-*" {
  policy = "write"
  capabilities = ["alloc-node-exec", "host-volume-write"]
}

namespace "prod-web" {
  capabilities = ["submit-job", "read-job", "csi-register-plugin"]
  variables {
    path "nomad/jobs/*" { capabilities = ["read", "destroy"] }
  }
}

namespace "secret" { policy = "deny" }

node_pool "gpu*" { policy = "write" }
node_pool "gpu_a100" { capabilities = ["read"] }
node_pool "default" { policy = "deny" }

host_volume "db-*" { policy = "write" }
host_volume "certs" { capabilities = ["mount-readonly"] }

agent { policy = "write" }
node { policy = "read" }
quota { policy = "read" }
operator { policy = "read" capabilities = ["snapshot-save"] }
plugin { policy = "list" }
sentinel { policy = "read" capabilities = ["sentinel-submit"] }
