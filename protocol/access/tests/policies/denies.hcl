namespace "*" {
  policy = "write"
}

namespace "prod*" {
  policy       = "write"
  capabilities = ["deny"]
}

namespace "prod-web" {
  policy = ""
}

agent    { policy = "deny" }
node     { policy = "deny" }
quota    { policy = "deny" }
plugin   { policy = "deny" }
sentinel { policy = "deny" }

operator {
  policy       = "write"
  capabilities = ["deny"]
}

host_volume "*" {
  policy       = "read"
  capabilities = ["deny"]
}

node_pool "*" { policy = "read" }
node_pool "*" { capabilities = ["deny"] }
