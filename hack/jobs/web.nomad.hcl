# Three small web servers: what hack/quickstart submits. Each serves one page that says who it is.
job "web" {
  type = "service"

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
          <p>This is {{ env "NOMAD_ALLOC_NAME" }}, allocation {{ env "NOMAD_ALLOC_ID" }}.</p>
        PAGE
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
