job "blocks" {
  region      = "global"
  namespace   = "default"
  node_pool   = "all"
  priority    = 70
  all_at_once = true

  constraint {
    attribute = "${attr.kernel.name}"
    operator  = "regexp"
    value     = "^linux$"
  }

  affinity {
    attribute = "${node.datacenter}"
    value     = "dc1"
    weight    = -50
  }

  spread {
    attribute = "${node.datacenter}"
    weight    = 100
    target "dc1" {
      percent = 60
    }
  }

  update {
    max_parallel      = 2
    health_check      = "checks"
    min_healthy_time  = "5s"
    healthy_deadline  = "2m"
    progress_deadline = "5m"
    auto_revert       = true
    canary            = 1
  }

  group "web" {
    count = 2

    network {
      mode = "bridge"
      port "http" {
        static = 8080
        to     = 80
      }
      port "rpc" {}
      dns {
        servers = ["10.0.0.1"]
      }
    }

    scaling {
      min = 1
      max = 9
      policy {
        cooldown = "1m"
      }
    }

    volume "data" {
      type      = "host"
      source    = "data"
      read_only = true
    }

    restart {
      attempts = 3
      interval = "10m"
      delay    = "15s"
      mode     = "delay"
    }

    reschedule {
      delay          = "30s"
      delay_function = "exponential"
      max_delay      = "1h"
      unlimited      = true
    }

    ephemeral_disk {
      size    = 300
      migrate = true
      sticky  = true
    }

    disconnect {
      lost_after = "6h"
      replace    = true
    }

    service {
      name     = "web"
      port     = "http"
      provider = "nomad"
      tags     = ["a", "b"]

      check {
        type     = "http"
        path     = "/"
        interval = "10s"
        timeout  = "2s"
        header {
          Accept = ["text/plain"]
        }
        check_restart {
          limit = 3
          grace = "90s"
        }
      }

      connect {
        sidecar_service {
          proxy {
            upstreams {
              destination_name = "db"
              local_bind_port  = 5432
            }
          }
        }
      }
    }

    task "prepare" {
      driver = "exec"
      lifecycle {
        hook    = "prestart"
        sidecar = false
      }
      config {
        command = "/bin/true"
      }
    }

    task "server" {
      driver         = "exec"
      user           = "nobody"
      leader         = true
      kill_timeout   = "20s"
      kill_signal    = "SIGINT"
      shutdown_delay = "1s"

      config {
        command = "/bin/sleep"
        args    = ["60"]
      }
      env {
        KEY = "value"
      }
      artifact {
        source      = "https://example.com/file.tar.gz"
        destination = "local/"
        options {
          checksum = "md5:c4aa853ad2215426eb7d70a21922e794"
        }
      }
      template {
        data          = "x = {{ env \"KEY\" }}"
        destination   = "local/x.conf"
        change_mode   = "signal"
        change_signal = "SIGHUP"
        splay         = "1s"
        wait {
          min = "1s"
          max = "2s"
        }
      }
      dispatch_payload {
        file = "payload"
      }
      vault {
        policies = ["p"]
      }
      identity {
        name = "consul"
        aud  = ["consul.io"]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
      logs {
        max_files     = 3
        max_file_size = 10
      }
      resources {
        cpu        = 500
        memory     = 256
        memory_max = 512
        device "nvidia/gpu" {
          count = 1
          constraint {
            attribute = "${device.attr.memory}"
            operator  = ">="
            value     = "2 GiB"
          }
        }
        numa {
          affinity = "prefer"
        }
      }
    }
  }
}
