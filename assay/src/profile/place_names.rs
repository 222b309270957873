//! Names that a program made of a place's path, with another sign for each slash: apt's lists
//! (`_srv_repo_._Packages`), an agent's folder of a project (`-home-u-project`), an editor's swap file
//! (`%home%u%file.swp`). Pure.

use super::fold_rule::FoldRule;
use super::name::escape_into;
use super::roots::RootTable;
use super::volatile::FoldedName;

/// What programs write for a slash.
const SIGNS: &[u8] = b"_-%!+.:=";

/// The component with the root that it is named by replaced, or `None`. The root's path stands at the beginning, whole,
/// with one sign for all its slashes; signs alone may stand before it.
pub fn fold_place_name(name: &[u8], roots: &RootTable) -> Option<FoldedName> {
    let first = name.iter().position(u8::is_ascii_alphanumeric)?;
    let start = first.checked_sub(1)?;
    let sign = name[start];
    if !SIGNS.contains(&sign) {
        return None;
    }
    let (var, len) = roots.all().find_map(|(var, path)| {
        // A place of one component (`/srv`) could be anything's name.
        let is_long = path.iter().rposition(|&byte| byte == b'/') > Some(0);
        (!var.is_cgroup() && is_long && is_written(&name[start..], path, sign)).then_some((var, path.len()))
    })?;
    let mut text = String::new();
    escape_into(&name[..start], &mut text);
    text.push_str("${");
    text.push_str(var.name());
    text.push_str("_NAME}");
    escape_into(&name[start + len..], &mut text);
    Some(FoldedName { text, rules: vec![FoldRule::PlaceName] })
}

/// Whether `text` begins with `path`, its slashes (and perhaps other signs in it) written as `sign`.
fn is_written(text: &[u8], path: &[u8], sign: u8) -> bool {
    let is_same = |(&written, &byte): (&u8, &u8)| {
        let may_change = !byte.is_ascii_alphanumeric();
        if byte == b'/' { written == sign } else { written == byte || (may_change && written == sign) }
    };
    let ends = text.get(path.len()).is_none_or(|byte| !byte.is_ascii_alphanumeric());
    text.len() >= path.len() && ends && text.iter().zip(path).all(is_same)
}

#[cfg(test)]
mod tests {
    use super::super::roots::Roots;
    use super::*;

    #[test]
    fn a_place_written_as_a_name_is_told_by_its_variable() {
        let roots = RootTable::new(&Roots {
            workdir: vec![b"/home/u/my.proj".to_vec()],
            home: vec![b"/home/u".to_vec()],
            tmpdir: vec![b"/x".to_vec()],
            runtime_dir: vec![b"/run/user/7".to_vec()],
            ..Roots::default()
        });
        for (name, want) in [
            ("_home_u_my.proj_repo_._Packages", Some("${WORKDIR_NAME}_repo_._Packages")),
            ("-home-u-my-proj", Some("${WORKDIR_NAME}")),
            ("%home%u%other%file.swp", Some("${HOME_NAME}%other%file.swp")),
            ("#!home!u!a#", Some("#${HOME_NAME}!a#")),
            ("-home-u-my-projects", Some("${HOME_NAME}-my-projects")),
            ("-home-uu", None),
            ("a_home_u", None),
            ("home_u", None),
            ("_home-u", None),
            ("%run%user%7%app.swp", Some("${RUNTIME_DIR_NAME}%app.swp")),
            ("_x_a", None),
            ("_", None),
            ("", None),
        ] {
            let told = fold_place_name(name.as_bytes(), &roots).map(|folded| folded.text);
            assert_eq!(told.as_deref(), want, "{name}");
        }
    }
}
