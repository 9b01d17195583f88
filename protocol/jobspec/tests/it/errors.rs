//! Messages, exactly as users see them.

use crate::{complaints, inputs};
use protocol_jobspec::{VariableFile, Variables, parse};

#[test]
fn misspelt_words_are_named_with_a_suggestion() {
    let text = r#"job "web" {
  datacentres = ["dc1"]

  group "g" {
    task "t" {
      dirver = "exec"

      resorces {
        cpu = 100
      }
      resources {
        memroy = 100
      }
    }
  }
}
"#;
    insta::assert_snapshot!(complaints(text), @"");
}

#[test]
fn values_of_the_wrong_kind_are_shown() {
    let text = r#"job "web" {
  type        = "bacth"
  datacenters = "dc1"
  priority    = "high"

  group "g" {
    count          = -1
    shutdown_delay = "10"

    restart {
      attempts = 1.5
      delay    = "-5s"
    }
    network {
      port "http" {
        static = 70000
      }
    }
    task "t" {
      leader = "yes"
      driver = ["exec"]
    }
  }
}
"#;
    insta::assert_snapshot!(complaints(text), @"");
}

#[test]
fn blocks_in_the_wrong_form_say_the_right_one() {
    let text = r#"job "web" {
  group {
    resources = { cpu = 1 }
    update = { canary = 1 }
    count {
      x = 1
    }
    restart "always" {}
    restart {}
    restart {}
    ephemeral_disk "x" "y" {}
    volume "data" {}
    volume "data" {}
    network {
      port "a b" {}
      port "x" {}
      port "x" {}
    }
  }
}
"#;
    insta::assert_snapshot!(complaints(text), @"");
}

#[test]
fn failing_expressions_point_at_their_part() {
    let text = r#"variable "image" {
  type = string
}
locals {
  a = local.b
  b = local.c
  c = local.a
  d = 1
}
job "web" {
  meta {
    typo   = var.imgae
    used   = var.image
    circle = local.b
    list   = "x ${[1]}"
    number = 1 + "two"
    index  = [1, 2][5]
    absent = { key = 1 }.kye
    call   = uper("x")
    few    = replace("x")
    arg    = substr("x", "y", 1)
    file   = file("secret.txt")
    yaml   = yamldecode("a: 1")
    cond   = "maybe" ? 1 : 2
    zero   = 1 / 0
    regex  = regex("(", "x")
    local  = local.dd
    dotted = { a.b = 1 }
    many   = range(5000)
    failed = try([1][3], tonumber("x"))
  }
}
"#;
    insta::assert_snapshot!(complaints(text), @"");
}

#[test]
fn dynamic_blocks_say_what_they_lack() {
    let text = r#"job "web" {
  dynamic "meta" {}
  group "g" {
    dynamic "tsak" {
      for_each = [1]
      content {}
    }
    dynamic "task" {
      for_each = 5
      content {}
    }
    dynamic "task" {
      for_each = ["a"]
      content {}
    }
    dynamic "task" {
      for_each = ["a"]
      labels   = [task.value]
      driver   = "exec"
      content {}
    }
    dynamic "task" {
      for_each = ["a"]
      labels   = [task.value]
      content {
        driver = task.wrong
      }
    }
  }
}
"#;
    insta::assert_snapshot!(complaints(text), @"");
}

#[test]
fn syntax_errors_are_located() {
    let text = "job \"web\" {\n  group \"g\" {\n    count = [1, 2\n  }\n}\n";
    insta::assert_snapshot!(complaints(text), @"");
}

#[test]
fn a_file_without_a_job_and_one_with_too_much_are_refused() {
    let two = "job \"a\" {}\njob \"b\" {}\nx = 1\ntask \"t\" {}\n";
    let both = format!("{}\n----\n{}", complaints("# nothing\n"), complaints(two));
    insta::assert_snapshot!(both, @"");
}

#[test]
fn variables_say_where_a_bad_value_came_from() {
    let text = r#"variable "count" {
  type = number
  validation {
    condition     = var.count > 0
    error_message = "The count must be positive."
  }
}
variable "names" {
  type = list(string)
}
variable "small" {
  type    = number
  default = 0
  validation {
    condition     = var.small > 0
    error_message = "Too small: ${var.small}."
  }
}
variable "kind" {
  type = strnig
  defualt = 1
}
variable "later" {
  default = "${var.count}"
}
variable "lacking" {}
job "web" {
  group "g" {
    count = var.count
  }
}
"#;
    let variables = Variables {
        environment: vec![("NOMAD_VAR_names".to_owned(), "[a, b]".to_owned())],
        files: vec![VariableFile {
            name: "prod.vars".to_owned(),
            text: "nmaes = [\"x\"]\n# more\ncount = \"many\"\n".to_owned(),
        }],
        arguments: vec![("cuont".to_owned(), "1".to_owned())],
    };
    let mut inputs = inputs();
    inputs.variables = variables;
    let problems = parse("web.nomad", text, &mut inputs).unwrap_err();
    insta::assert_snapshot!(problems.to_string(), @"");
}
