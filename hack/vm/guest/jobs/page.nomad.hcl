# Serves a page in a network of its own.
job "page" {
  group "page" {
    network {
      mode = "bridge"
      port "http" {
        to = 8080
      }
    }

    # The guest's disk is small.
    ephemeral_disk {
      size = 20
    }

    task "page" {
      driver = "exec"

      logs {
        max_files     = 1
        max_file_size = 1
      }

      config {
        command = "/usr/bin/python3"
        args    = ["-m", "http.server", "8080", "--directory", "/local"]
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
