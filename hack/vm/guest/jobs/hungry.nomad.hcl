# A task that once wants twice the memory that it was given, beside one that wants nothing.
job "hungry" {
  group "hungry" {
    restart {
      attempts = 2
      interval = "1h"
      delay    = "1s"
      mode     = "fail"
    }

    task "hungry" {
      driver = "exec"

      config {
        command = "/usr/bin/python3"
        args    = ["${NOMAD_TASK_DIR}/hungry"]
      }

      template {
        destination = "local/hungry"
        data        = <<-SCRIPT
          import os, time
          mark = os.environ["NOMAD_ALLOC_DIR"] + "/ate"
          if not os.path.exists(mark):
              open(mark, "w").close()
              # Written to: a page that nobody touched takes no memory.
              b"x" * (128 << 20)
          time.sleep(1e8)
        SCRIPT
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }

    task "neighbour" {
      driver = "exec"

      config {
        command = "/bin/sleep"
        args    = ["infinity"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
