//! The cgroups from which a task's socket may be connected to.

/// Whether a process is of a task, by its line of cgroup v2 in `/proc/PID/cgroup`: it is in
/// `<base>/tasks/<alloc>/<task>.<run>` or below, where commands of `alloc exec` are. The name is
/// compared whole: `web.1` is run 1 of `web`, and `web.1.3` is run 3 of `web.1`.
pub fn is_of_task(cgroup: &str, tasks: &str, alloc: &str, task: &str) -> bool {
    let below = cgroup.strip_prefix('/').and_then(|path| {
        let path = path.strip_prefix(tasks.trim_matches('/'))?;
        path.strip_prefix('/')
    });
    let Some(below) = below else { return false };
    let mut parts = below.split('/');
    let (Some(of_alloc), Some(of_run)) = (parts.next(), parts.next()) else {
        return false;
    };
    let is_run = of_run.rsplit_once('.').is_some_and(|(name, run)| {
        name == task && !run.is_empty() && run.bytes().all(|byte| byte.is_ascii_digit())
    });
    of_alloc == alloc && is_run
}

/// The path of cgroup v2 in the text of `/proc/PID/cgroup`.
pub fn cgroup_of(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_a_task_are_told_by_their_cgroup() {
        for (cgroup, task, expected) in [
            ("/drover/tasks/a1/web.1", "web", true),
            ("/drover/tasks/a1/web.23/exec-7", "web", true),
            ("/drover/tasks/a1/web.1.3", "web.1", true),
            ("/drover/tasks/a1/web.1.3", "web", false),
            ("/drover/tasks/a1/web.1", "web.1", false),
            ("/drover/tasks/a1/web", "web", false),
            ("/drover/tasks/a1/web.", "web", false),
            ("/drover/tasks/a1/web.x1", "web", false),
            ("/drover/tasks/a1/web.1 (deleted)", "web", false),
            ("/drover/tasks/a1/other.1", "web", false),
            ("/drover/tasks/a2/web.1", "web", false),
            ("/drover/tasks/a1", "web", false),
            ("/drover/tasks", "web", false),
            ("/drover/tasksa1/web.1", "web", false),
            ("/other/drover/tasks/a1/web.1", "web", false),
            ("/drover/supervisor", "web", false),
            ("/../drover/tasks/a1/web.1", "web", false),
            ("/", "web", false),
            ("", "web", false),
        ] {
            assert_eq!(
                is_of_task(cgroup, "drover/tasks", "a1", task),
                expected,
                "{cgroup} {task}"
            );
        }
    }

    #[test]
    fn the_line_of_version_2_is_found_beside_those_of_version_1() {
        assert_eq!(cgroup_of("5:cpu:/a\n0::/b\n"), Some("/b"));
        assert_eq!(cgroup_of("5:cpu:/a\n"), None);
    }
}
