variable "image" {
  type        = string
  default     = "web"
  description = "what runs"
}

variable "sizes" {
  type = list(object({
    name = string
    cpu  = number
  }))
  default = [{ name = "small", cpu = 100 }, { name = "large", cpu = 500 }]

  validation {
    condition     = length(var.sizes) > 0
    error_message = "There has to be a size."
  }
}

locals {
  base    = "${var.image}-${upper("x")}"
  squares = [for i in range(5) : i * i if i % 2 == 0]
  by_name = { for size in var.sizes : size.name => size.cpu... }
  merged  = merge({ a = 1 }, { b = try(local.missing, 2) })
  text    = <<-EOT
    %{ for name in ["a", "b"] ~}
    name: ${name}
    %{ endfor ~}
    %{ if length(local.squares) > 1 }many%{ else }few%{ endif }
  EOT
}

job "language" {
  datacenters = ["dc1", "dc-${1 + 1}"]
  type        = "batch"

  meta {
    base  = local.base
    names = join(",", var.sizes[*].name)
    sum   = format("%05.2f %s %q %v", 1.5, "a", "b", local.merged)
    json  = jsonencode({ a = [1, null, true], b = "x" })
    hash  = sha256("text")
    net   = cidrsubnet("10.0.0.0/8", 8, 2)
    time  = formatdate("YYYY-MM-DD", timeadd(timestamp(), "10m"))
    re    = regex_replace("a-b", "(\\w)-(\\w)", "$2$1")
    slice = join("", slice(split("", "abcdef"), 1, 3))
    cond  = length(local.text) > 3 ? "long" : "short"
  }

  group "main" {
    dynamic "task" {
      for_each = var.sizes
      labels   = [task.value.name]

      content {
        driver = "raw_exec"

        config {
          command = "/bin/${task.value.name}"
          args    = ["${NOMAD_ALLOC_ID}", "${attr.kernel.name}", "$${kept}"]
        }

        resources {
          cpu = task.value.cpu
        }
      }
    }
  }
}
