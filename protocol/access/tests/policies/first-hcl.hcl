/* Forms that the first version of HCL takes: names in quotes or bare, several
   attributes on a line, blocks as objects, commas between attributes, one text for a list. */
"namespace" "default" { "policy" = "read" capabilities = ["submit-job",], }
namespace dev { policy = "write" } namespace team-a { capabilities = "read-job" }
namespace = { "prod" = { policy = "scale" } }
namespace { api-prod { policy = "read" } }
namespace "prod" { policy = "read" }
node_pool = [{ default = { policy = "read" } }, { "edge-*" = { policy = "write" } }]
agent = { policy = "read" }
operator = [{ policy = "write" }]
