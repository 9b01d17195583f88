job "hello" {
  group "greeter" {
    count = 2
    task "say" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo hello from $NOMAD_ALLOC_NAME; sleep 600"]
      }
    }
  }
}
