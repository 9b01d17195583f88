# Three small web servers: what hack/quickstart submits. Each serves one page that says who it is.
variable "greeting" {
  type    = string
  default = "Hello"
}

job "web" {
  type = "service"

  # A new version starts as one allocation beside the old ones. `drover job promote web` releases it.
  update {
    canary           = 1
    max_parallel     = 1
    min_healthy_time = "1s"
  }

  group "web" {
    count = 3

    network {
      port "http" {}
    }

    # A killed task is back within a second or two; ten deaths in a minute are another matter.
    restart {
      attempts = 10
      interval = "1m"
      delay    = "1s"
      mode     = "fail"
    }

    task "server" {
      driver = "exec"

      config {
        command = "/usr/bin/python3"
        args = [
          "-u", "-m", "http.server",
          "--bind", "127.0.0.1",
          "--directory", "${NOMAD_TASK_DIR}",
          "${NOMAD_PORT_http}",
        ]
      }

      template {
        destination = "local/index.html"
        data        = <<-PAGE
          <!doctype html>
          <title>web</title>
          <p>${var.greeting}! This is {{ env "NOMAD_ALLOC_NAME" }}, allocation {{ env "NOMAD_ALLOC_ID" }}.</p>
        PAGE
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
