# Serves a page in a network of its own.
job "page" {
  group "page" {
    network {
      mode = "bridge"
      port "http" {
        to = 8080
      }
    }

    task "page" {
      driver = "exec"

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
