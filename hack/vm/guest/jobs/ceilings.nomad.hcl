# Tasks that run into their limits: one is killed by them, the others live on.
job "ceilings" {
  group "ceilings" {
    restart {
      attempts = 2
      interval = "1h"
      delay    = "1s"
      mode     = "fail"
    }

    # Once wants more than memory_max.
    task "bursting" {
      driver = "exec"

      config {
        command   = "/usr/bin/python3"
        args      = ["${NOMAD_TASK_DIR}/bursting"]
        oom_group = true
      }

      template {
        destination = "local/bursting"
        data        = <<-SCRIPT
          import os, time
          mark = os.environ["NOMAD_ALLOC_DIR"] + "/burst"
          if not os.path.exists(mark):
              open(mark, "w").close()
              b"x" * (192 << 20)
          time.sleep(1e8)
        SCRIPT
      }

      resources {
        cpu        = 50
        memory     = 32
        memory_max = 96
      }
    }

    # Its child wants too much at the start, and again for each file `more`.
    task "parent" {
      driver = "exec"

      config {
        command = "/bin/sh"
        args    = ["${NOMAD_TASK_DIR}/parent"]
      }

      template {
        destination = "local/parent"
        data        = <<-SCRIPT
          while :; do
            python3 -c 'b"x" * (128 << 20)'
            echo "the child ended with $?"
            rm -f "$NOMAD_ALLOC_DIR/more"
            until [ -e "$NOMAD_ALLOC_DIR/more" ]; do sleep 1; done
          done
        SCRIPT
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }

    task "pinned" {
      driver = "exec"

      config {
        command = "/bin/sleep"
        args    = ["infinity"]
      }

      resources {
        cores  = 1
        memory = 32
      }
    }

    task "throttled" {
      driver = "exec"

      config {
        command        = "/bin/sh"
        args           = ["-c", "while :; do :; done"]
        cpu_hard_limit = true
      }

      resources {
        cpu    = 100
        memory = 32
      }
    }
  }

  # Writes more than its disk has.
  group "overfull" {
    ephemeral_disk {
      size = 10
    }

    task "overfull" {
      driver = "exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "head -c 20971520 /dev/zero >$NOMAD_ALLOC_DIR/data/file; exec sleep infinity"]
      }

      logs {
        max_files     = 1
        max_file_size = 1
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
