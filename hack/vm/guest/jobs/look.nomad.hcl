# Two tasks that print what they see of the host, a fact a line.
job "look" {
  type = "batch"

  group "look" {
    task "inside" {
      driver = "exec"

      config {
        command = "/bin/sh"
        args    = ["${NOMAD_TASK_DIR}/look"]
      }

      template {
        destination = "local/look"
        data        = <<-SCRIPT
          attempt() { if "$@" 2>/dev/null; then echo allowed; else echo refused; fi; }
          status() { sed -n "s/^$1:[[:space:]]*//p" /proc/self/status; }
          # Of this shell, without the script itself, which it reads as 10.
          (cd /proc/$$/fd && echo descriptors [0-9])
          echo pid $$
          echo uid $(id -u)
          echo processes $(ls -d /proc/[0-9]* | wc -l)
          echo cgroup $(cat /proc/$$/cgroup)
          echo oom_score_adj $(cat /proc/self/oom_score_adj)
          echo nofile $(ulimit -n)
          echo systemd-environment $(env | grep -c -e NOTIFY_SOCKET -e INVOCATION_ID -e JOURNAL_STREAM)
          for field in NoNewPrivs Seccomp SigIgn SigBlk; do
            echo $field $(status $field)
          done
          for namespace in cgroup ipc mnt pid uts; do
            echo ns-$namespace $(readlink /proc/$$/ns/$namespace)
          done
          echo node-state $(if [ -e /var/lib/drover ]; then echo present; else echo absent; fi)
          echo write-usr $(attempt touch /usr/drover)
          echo write-local $(attempt touch "$NOMAD_TASK_DIR/file")
          echo mount $(attempt mount -t tmpfs none /tmp)
          echo read-key $(attempt cat /etc/drover/global-server-drover-key.pem)
          echo done
          exec sleep infinity
        SCRIPT
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }

    task "raw" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["${NOMAD_TASK_DIR}/look"]
      }

      template {
        destination = "local/look"
        data        = <<-SCRIPT
          status() { sed -n "s/^$1:[[:space:]]*//p" /proc/self/status; }
          (cd /proc/$$/fd && echo descriptors [0-9])
          echo oom_score_adj $(cat /proc/self/oom_score_adj)
          echo nofile $(ulimit -n)
          echo systemd-environment $(env | grep -c -e NOTIFY_SOCKET -e INVOCATION_ID -e JOURNAL_STREAM)
          for field in SigIgn SigBlk; do
            echo $field $(status $field)
          done
          echo done
          exec sleep infinity
        SCRIPT
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
