//! Published claims beside this machine's figures: a table for a terminal, and one for a page.

use comfy_table::{Cell as Field, Color, Table};

use super::Style;
use super::page::escape;
use super::table::table;
use crate::results::claims::{Claim, Verdict};
use crate::support::format;

/// The note under every comparison.
pub(crate) const RATIOS_ONLY: &str =
    "Other CPUs, disks, kernels and decades: ratios are judged, absolute figures are not.";

/// A field with the verdict, coloured on a terminal with colours.
pub(crate) fn verdict_field(verdict: Verdict, style: Style) -> Field {
    let field = Field::new(verdict.words());
    if !style.colour {
        return field;
    }
    field.fg(match verdict {
        Verdict::Holds => Color::Green,
        Verdict::DoesNotHold => Color::Red,
        _ => Color::Yellow,
    })
}

/// The class of the verdict on a page.
pub(crate) fn verdict_class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::DoesNotHold => "fails",
        _ => "between",
    }
}

/// The published ratio, or a dash.
pub(crate) fn published(claim: &Claim) -> String {
    claim.published.map_or("-".into(), |ratio| format!("{ratio:.2}"))
}

/// Whether the claim at `index` is the one before: a claim with several comparisons is written once.
fn is_repeated(claims: &[Claim], index: usize) -> bool {
    index > 0 && claims[index - 1].claim == claims[index].claim
}

/// Claims for a terminal: published, here, verdict, reason.
pub(crate) fn text(claims: &[Claim], style: Style) -> Table {
    let mut table = table(style);
    table.set_header(["claim, and what is compared", "published", "here", "", "because"]);
    for (index, claim) in claims.iter().enumerate() {
        let text = if is_repeated(claims, index) { String::new() } else { format!("{}\n", claim.claim) };
        table.add_row([
            Field::new(format!("{text}[{}]", claim.compared)),
            Field::new(published(claim)),
            Field::new(format::ratio(claim.measured())),
            verdict_field(claim.verdict, style),
            Field::new(&claim.because),
        ]);
    }
    table
}

/// Claims for a page; `here` names the column of the measured ratios.
pub(crate) fn html(claims: &[Claim], here: &str) -> String {
    let row = |(index, claim): (usize, &Claim)| {
        let text = match is_repeated(claims, index) {
            true => String::new(),
            false => format!("{}<br>", escape(&claim.claim)),
        };
        format!(
            "<tr><td>{text}<small>{}</small></td><td>{}</td><td>{}</td><td class=\"value {}\">{}</td><td>{}</td></tr>\n",
            escape(&claim.compared),
            published(claim),
            escape(&format::ratio(claim.measured())),
            verdict_class(claim.verdict),
            claim.verdict.words(),
            escape(&claim.because)
        )
    };
    let rows: String = claims.iter().enumerate().map(row).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"words told\"><thead><tr><th>claim</th><th>published</th>\
         <th>{}</th><th></th><th>because</th></tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n",
        escape(here)
    )
}

/// `2 hold, 1 holds weaker, 1 does not hold`: how many claims have which verdict.
pub(crate) fn count(claims: &[Claim]) -> String {
    let words = |verdict, count: usize| match (verdict, count) {
        (Verdict::Holds, 1) => "holds",
        (Verdict::Holds, _) => "hold",
        (Verdict::HoldsWeaker, 1) => "holds weaker",
        (Verdict::HoldsWeaker, _) => "hold weaker",
        (Verdict::NoClearDifference, _) => "without a clear difference",
        (Verdict::DoesNotHold, 1) => "does not hold",
        (Verdict::DoesNotHold, _) => "do not hold",
        (Verdict::Inconclusive, _) => "inconclusive",
        (Verdict::NotMeasured, _) => "not measured",
    };
    let parts = Verdict::ALL.into_iter().filter_map(|verdict| {
        let count = claims.iter().filter(|claim| claim.verdict == verdict).count();
        (count > 0).then(|| format!("{count} {}", words(verdict, count)))
    });
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::statistics::Spread;

    fn claim(verdict: Verdict) -> Claim {
        let measured = Spread::of([1.0, 2.0, 4.0]);
        Claim::new("more <here>", "a / b", Some(2.0), measured, verdict).because("of this & that")
    }

    #[test]
    fn a_row_has_claim_figures_verdict_and_reason() {
        let plain = Style { colour: false, width: 120 };
        let shown = text(&[claim(Verdict::Holds), Claim::default()], plain).to_string();
        for part in
            ["more <here>", "[a / b]", "2.00 1.00..4.00", "holds here", "of this & that", "not measured"]
        {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let coloured = Style { colour: true, width: 120 };
        assert!(text(&[claim(Verdict::DoesNotHold)], coloured).to_string().contains("\x1b["));
        let page = html(&[claim(Verdict::DoesNotHold)], "here");
        assert!(page.contains("more &lt;here&gt;") && page.contains("value fails"), "{page}");
    }

    #[test]
    fn a_claim_with_several_comparisons_is_written_once() {
        let claims = [claim(Verdict::Holds), claim(Verdict::DoesNotHold)];
        let shown = text(&claims, Style { colour: false, width: 120 }).to_string();
        assert_eq!(
            (shown.matches("more <here>").count(), shown.matches("[a / b]").count()),
            (1, 2),
            "{shown}"
        );
        let page = html(&claims, "here");
        assert_eq!((page.matches("more &lt;here&gt;").count(), page.matches("a / b").count()), (1, 2));
    }

    #[test]
    fn verdicts_are_counted() {
        let claims = [Verdict::Holds, Verdict::DoesNotHold, Verdict::Holds, Verdict::HoldsWeaker].map(claim);
        assert_eq!(count(&claims), "2 hold, 1 holds weaker, 1 does not hold");
        assert_eq!(count(&[]), "");
    }
}
