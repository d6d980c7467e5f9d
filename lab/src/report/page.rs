//! The self-contained page: style, script, plotly's library, and charts in one file.
//!
//! The page fetches nothing. The library comes out of the `plotly` crate; the rest of that crate's output (MathJax, a
//! content delivery network) is left out. The page's own security policy forbids every request, so that a mistake here
//! shows as an error in the tests and not as traffic from the reader's browser.

use serde_json::{Map, Value, json};

use super::chart::Chart;
use super::palette::COLOURS;
use super::series::{Graph, Stack};
use crate::results::Machine;
use crate::support::format;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:";

/// A page while it is put together.
#[derive(Default)]
pub(crate) struct Page {
    specs: Vec<Value>,
}

impl Page {
    /// The charts as figures, the wide ones first; in between what the caller wants there.
    pub(crate) fn figures(&mut self, charts: Vec<Chart>, between: &str) -> String {
        let (wide, small): (Vec<Chart>, Vec<Chart>) = charts.into_iter().partition(|chart| chart.wide);
        let (wide, small) = (self.grid(wide), self.grid(small));
        format!("{wide}{between}{small}")
    }

    fn grid(&mut self, charts: Vec<Chart>) -> String {
        if charts.is_empty() {
            return String::new();
        }
        let figures: String = charts.into_iter().map(|chart| self.figure(chart)).collect();
        format!("<div class=\"grid\">\n{figures}</div>\n")
    }

    fn figure(&mut self, chart: Chart) -> String {
        let index = self.specs.len();
        self.specs.push(chart.spec);
        let class = if chart.wide { " class=\"wide\"" } else { "" };
        let button = if chart.switchable {
            format!("<button type=\"button\" data-log=\"{index}\" aria-pressed=\"false\">log y</button>")
        } else {
            String::new()
        };
        let (title, note) = (escape(&chart.title), escape(&chart.note));
        format!(
            "<figure{class}><figcaption><h3>{title}</h3>{button}<p>{note}</p></figcaption>\
             <div class=\"chart\" data-chart=\"{index}\" role=\"img\" aria-label=\"{title}\"></div></figure>\n"
        )
    }

    /// Stacks of graphs over time beside each other, each with its title.
    pub(crate) fn stacks(&mut self, stacks: Vec<Stack>) -> String {
        let figures: String = stacks.into_iter().map(|(title, graphs)| self.stack(&title, graphs)).collect();
        format!("<div class=\"grid\">\n{figures}</div>\n")
    }

    fn stack(&mut self, title: &str, graphs: Vec<Graph>) -> String {
        let title = escape(title);
        let mut graphs_html = String::new();
        for graph in graphs {
            let index = self.specs.len();
            self.specs.push(graph.spec);
            graphs_html += &format!(
                "<p>{name}</p>\n<div class=\"chart\" data-chart=\"{index}\" role=\"img\" aria-label=\"{title}: {name}\"></div>\n",
                name = graph.title,
            );
        }
        format!("<figure class=\"stack\"><figcaption><h3>{title}</h3></figcaption>\n{graphs_html}</figure>\n")
    }

    /// The whole document; `head` and `sections` are HTML, `title` and `version` text.
    pub(crate) fn document(self, title: &str, head: &str, sections: &str, version: &str) -> String {
        // A page without charts needs no library.
        let library = if self.specs.is_empty() { String::new() } else { library() };
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>flifo: {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{head}<main>\n{sections}</main>\n\
             <footer><div class=\"inner\">Drawn by flifo {version}. Drag over a chart to enlarge, click twice to come back, click a name to hide its line. \
             This page asks the network for nothing.</div></footer>\n\
             <script type=\"application/json\" id=\"charts\">{charts}</script>\n\
             <script type=\"application/json\" id=\"palettes\">{palettes}</script>\n\
             <script>{library}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
            title = escape(title),
            version = escape(version),
            charts = json_in_script(&Value::Array(self.specs)),
            palettes = json_in_script(&palettes()),
        )
    }
}

/// The head of the page: the subject, conclusions (HTML), and the facts.
pub(crate) fn head(about: &str, leads: &str, command_line: &str, facts: &[(&str, String)]) -> String {
    let facts: String =
        facts.iter().map(|(name, fact)| format!("<dt>{name}</dt><dd>{}</dd>\n", escape(fact))).collect();
    format!(
        "<header>\n<div class=\"bar\"><h1>flifo <small>{}</small></h1>\
         <button id=\"theme\" type=\"button\">light / dark</button></div>\n{leads}\
         <dl class=\"facts\">\n<dt>command</dt><dd><code>{}</code></dd>\n{facts}</dl>\n</header>\n",
        escape(about),
        escape(command_line)
    )
}

/// A conclusion and its subject, for the head of the page.
pub(crate) fn lead(about: &str, sentence: &str) -> String {
    let (about, sentence) = (escape(about), escape(sentence));
    format!(
        "<div class=\"lead\"><p class=\"which\">{about}</p><p class=\"conclusion\">{sentence}</p></div>\n"
    )
}

/// What a reader must know before the figures.
pub(crate) fn warning(text: &str) -> String {
    format!("<p class=\"warning\">{}</p>\n", escape(text))
}

/// The machine, as a fact for the head of the page.
pub(crate) fn described(machine: &Machine) -> String {
    let memory = format::bytes(machine.memory_bytes);
    format!("{}, {} cores, {memory} memory, {}", machine.cpu_model, machine.cores, machine.kernel)
}

/// Text for an element or an attribute.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Plotly's library alone: the first of the scripts that the crate embeds.
pub(crate) fn library() -> String {
    let scripts = plotly::Plot::offline_js_sources();
    let body = scripts.split_once("</script>").map_or("", |(first, _)| first);
    body.split_once('>').map_or("", |(_, library)| library).to_owned()
}

fn palettes() -> Value {
    let side = |pick: fn(&(&str, &'static str, &'static str)) -> &'static str| -> Map<String, Value> {
        COLOURS.iter().map(|entry| (entry.0.to_owned(), pick(entry).into())).collect()
    };
    json!({"light": side(|c| c.1), "dark": side(|c| c.2)})
}

/// JSON that cannot end its script element.
fn json_in_script(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

/// What a reader sees of a page, a line for each block of text.
#[cfg(test)]
pub(crate) fn visible(page: &str) -> String {
    let mut text = page.to_owned();
    for element in ["script", "style"] {
        while let Some(start) = text.find(&format!("<{element}")) {
            let end = text[start..].find(&format!("</{element}>")).expect("an element that ends");
            text.replace_range(start..start + end + element.len() + 3, "\n");
        }
    }
    let mut lines = String::new();
    for part in text.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)) {
        let words: Vec<&str> = part.split_whitespace().collect();
        if !words.is_empty() {
            lines += &words.join(" ");
            lines.push('\n');
        }
    }
    lines.replace(env!("CARGO_PKG_VERSION"), "VERSION")
}
