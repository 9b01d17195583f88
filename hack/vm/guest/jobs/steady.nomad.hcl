# Two tasks that go on for ever, say so, and end with 7 when they are told to.
job "steady" {
  group "steady" {
    count = 2

    # Room for the task's logs; the default would fill the guest's disk.
    ephemeral_disk {
      size = 110
    }

    restart {
      attempts = 10
      interval = "1h"
      delay    = "1s"
      mode     = "fail"
    }

    task "ticker" {
      driver = "exec"

      config {
        command = "/bin/sh"
        args = ["-c", <<-SCRIPT
          trap 'exit 7' USR1
          while :; do
            echo tick
            sleep 1
          done
        SCRIPT
        ]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
