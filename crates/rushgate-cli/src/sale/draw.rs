//! `rushgate sale draw verify`: verifies a draw offline.

use std::io::Read;
use std::path::Path;

use anyhow::Result;
use rushgate::sale::DrawRecord;
use rushgate::store::hex;
use serde_json::{Value, json};

use crate::args::room::DrawVerifyArgs;
use crate::exit::{Exit, Fault};
use crate::output::{Output, counted, moment};

pub(super) fn verify(args: &DrawVerifyArgs, output: Output) -> Result<Exit> {
    let record = read(&args.file)?;
    let places: Vec<_> = args.serials.iter().map(|serial| (*serial, record.drawn.place(*serial))).collect();
    let wrong = wrong_with(&record, args);
    let seed = hex(&record.drawn.seed());
    let mut text = match &wrong {
        None => {
            format!("the draw of {} is valid: {}", record.sale, counted(record.drawn.entrants, "entrant"))
        }
        Some(why) => format!("the draw of {} is invalid: {why}", record.sale),
    };
    text.push_str(&format!("\ncommitment {}\nbeacon {}", record.commitment, record.drawn.beacon.as_str()));
    if let Some(at) = record.entry_closed {
        text.push_str(&format!("\nentry closed at {}", moment(at)));
    }
    for (serial, place) in &places {
        text.push_str(&format!("\nserial {serial} has position {place}"));
    }
    let places: Vec<Value> =
        places.iter().map(|(serial, place)| json!({ "serial": serial, "place": place })).collect();
    let json = json!({
        "holds": wrong.is_none(), "why": wrong, "sale": record.sale, "entrants": record.drawn.entrants,
        "entry_closed_us": record.entry_closed,
        "commitment": record.commitment, "beacon": record.drawn.beacon, "seed": seed, "places": places,
    });
    output.line(&json, text)?;
    if wrong.is_none() {
        note_unchecked(&record, args, output);
    }
    Ok(Exit::done_if(wrong.is_none()))
}

/// Prints what the record alone does not prove.
fn note_unchecked(record: &DrawRecord, args: &DrawVerifyArgs, output: Output) {
    if args.commitment.is_none() {
        output.note(
            "compare the commitment with the one published before buyers joined, or pass it with --commitment",
        );
    }
    if args.beacon.is_none() {
        output.note("compare the beacon byte for byte with the announced one, or pass it with --beacon");
    }
    if record.entry_closed.is_none() {
        output.note(
            "the entry was not closed before the draw: anyone who knew the secret and the beacon could still join",
        );
    } else if args.entrants.is_none() {
        output.note(
            "compare the number of entrants with the one published when the entry was closed, or pass it with \
             --entrants",
        );
    }
}

fn wrong_with(record: &DrawRecord, args: &DrawVerifyArgs) -> Option<String> {
    let is_other = |published: &String| !published.eq_ignore_ascii_case(&record.commitment.to_hex());
    if args.commitment.as_ref().is_some_and(is_other) {
        return Some("its commitment is not the published one".to_owned());
    }
    let entrants = record.drawn.entrants;
    if let Some(published) = args.entrants.filter(|published| *published != entrants) {
        return Some(format!("it has {entrants} entrants, but {published} were published"));
    }
    let beacon = record.drawn.beacon.as_str();
    if let Some(announced) = args.beacon.as_ref().filter(|announced| *announced != beacon) {
        return Some(format!("its beacon is `{beacon}`, not `{announced}`"));
    }
    if !record.keeps_its_word() {
        return Some("its secret does not match its commitment".to_owned());
    }
    let (serial, place) = record.wrong_place()?;
    Some(format!("serial {serial} has position {place}, but the record has another one"))
}

fn read(file: &Path) -> Result<DrawRecord> {
    let shown = file.display();
    let unreadable = |error: std::io::Error| Fault::usage(format_args!("cannot read `{shown}`: {error}"));
    let text = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(unreadable)?;
        text
    } else {
        std::fs::read_to_string(file).map_err(unreadable)?
    };
    let record = serde_json::from_str(&text).map_err(|error| {
        Fault::usage(format_args!("`{shown}` is not a draw record: {error}"))
            .hint("run `rushgate sale room show SALE --json` after the draw to print one")
    })?;
    Ok(record)
}
