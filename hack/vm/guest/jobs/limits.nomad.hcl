# Tasks whose limits are read back from their cgroups.
job "limits" {
  group "limits" {
    task "small" {
      driver = "exec"

      config {
        command = "/bin/sleep"
        args    = ["infinity"]
      }

      resources {
        cpu    = 50
        memory = 48
      }
    }

    task "large" {
      driver = "exec"

      config {
        command = "/bin/sleep"
        args    = ["infinity"]
      }

      resources {
        cpu    = 200
        memory = 96
      }
    }

    task "raw" {
      driver = "raw_exec"

      config {
        command = "/bin/sleep"
        args    = ["infinity"]
      }

      resources {
        cpu    = 100
        memory = 32
      }
    }
  }
}
