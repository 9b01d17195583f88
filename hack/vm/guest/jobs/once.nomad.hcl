# A batch job that leaves a line behind each time it runs. It must never run twice.
job "once" {
  type = "batch"

  group "once" {
    # Room for the task's logs; the default would fill the guest's disk.
    ephemeral_disk {
      size = 110
    }

    task "once" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo ran >>/var/lib/drover-guest/once"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
