job "dispatch" {
  type = "batch"

  periodic {
    crons            = ["*/15 * * * *", "@daily"]
    time_zone        = "Europe/Berlin"
    prohibit_overlap = true
  }

  parameterized {
    payload       = "required"
    meta_required = ["a"]
    meta_optional = ["b"]
  }

  task "alone" {
    driver = "raw_exec"
    config { command = "/bin/true" }
  }
}
