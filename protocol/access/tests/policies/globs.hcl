namespace "*" { policy = "read" }
namespace "*-prod" { capabilities = ["read-logs"] }
namespace "a*-prod" { capabilities = ["read-fs"] }
namespace "api*" { capabilities = ["alloc-exec"] }
namespace "p**" { capabilities = ["dispatch-job"] }
namespace "p*b" { capabilities = ["plan-job"] }

namespace "team-*" {
  variables {
    path "*" { capabilities = ["read"] }
    path "web/*/password" { capabilities = ["write"] }
  }
}

namespace "t*" {
  variables {
    path "web/db/*" { capabilities = ["destroy"] }
  }
}
