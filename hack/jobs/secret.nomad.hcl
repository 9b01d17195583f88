# A task that reads its own variable through its socket; hack/quickstart submits it. It needs no policy,
# no address and no certificate, only the variable: drover var put nomad/jobs/secret word=..
job "secret" {
  type = "batch"

  group "reader" {
    task "read" {
      driver = "exec"

      identity {
        env = true
      }

      config {
        command = "/bin/sh"
        args = ["-c", <<-SCRIPT
          exec curl --silent --show-error --fail --unix-socket "$NOMAD_SECRETS_DIR/api.sock" \
            -H "Authorization: Bearer $NOMAD_TOKEN" "localhost/v1/var/nomad/jobs/$NOMAD_JOB_ID"
        SCRIPT
        ]
      }

      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
