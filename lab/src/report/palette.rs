//! One colour per policy, everywhere; variants without a colour of their own use `first` to `sixth`. The colours are
//! from Okabe and Ito's set, which colour-blind readers can distinguish; the dark theme's are the same hues, lighter.
//! Marks differ too, so that colour is never the only distinction.

/// Name, on light, on dark.
pub(super) const COLOURS: [(&str, &str, &str); 30] = [
    ("none", "#6b7280", "#a9b2bf"),
    ("fifo", "#d55e00", "#f3924d"),
    ("lifo", "#aa4499", "#dd8ccf"),
    ("flifo", "#0072b2", "#56b4e9"),
    ("broadcast", "#8f6b00", "#e6c34d"),
    ("sleep", "#00785a", "#4cc79a"),
    ("quantum", "#c1121f", "#ff7a7a"),
    ("innodb", "#00785a", "#4cc79a"),
    ("lease", "#00838a", "#4fd1d1"),
    ("summon", "#7a5195", "#bb9adb"),
    ("tokio", "#3d3d8f", "#9a9af0"),
    ("asynclock", "#a0522d", "#d69a76"),
    ("mutexcondvar", "#5f7f1f", "#b4d455"),
    ("futex", "#9a6b00", "#d8b13a"),
    ("other", "#333333", "#dddddd"),
    ("first", "#d55e00", "#f3924d"),
    ("second", "#aa4499", "#dd8ccf"),
    ("third", "#00785a", "#4cc79a"),
    ("fourth", "#0072b2", "#56b4e9"),
    ("fifth", "#8f6b00", "#e6c34d"),
    ("sixth", "#c1121f", "#ff7a7a"),
    ("user", "#4a5a8a", "#7d90c9"),
    ("system", "#97a5cf", "#4d5c8c"),
    ("iowait", "#d9a520", "#d9a520"),
    ("steal", "#b4575d", "#c77a80"),
    ("idle", "#e9ecf1", "#262e39"),
    ("ink", "#1c2430", "#e6eaf0"),
    ("muted", "#8a94a3", "#76818f"),
    ("grid", "#e3e7ec", "#2c3541"),
    ("card", "#ffffff", "#1a2029"),
];

/// The name under which a policy's or a peer's colour is kept: letters only.
pub(super) fn colour_name(policy: &str) -> String {
    policy.chars().filter(char::is_ascii_alphabetic).collect()
}

/// A colour that is visible on white and on near-black, for a picture without a theme.
pub(super) fn neutral(policy: &str) -> (u8, u8, u8) {
    let expected = colour_name(policy);
    let found = COLOURS.iter().find(|(name, ..)| *name == expected);
    let light = found.map_or("#333333", |(_, light, _)| *light);
    let part = |from: usize| u8::from_str_radix(&light[from..from + 2], 16).unwrap_or(0);
    (part(1), part(3), part(5))
}
