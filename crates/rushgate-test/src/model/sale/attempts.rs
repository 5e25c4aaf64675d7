use rushgate_core::{ATTEMPT_ANSWERS_MAX, verb::CountAttempts};

use super::Model;

impl Model {
    /// See [`Verbs::count_attempts`](rushgate_core::Verbs::count_attempts). It keeps every server apart.
    pub fn count_attempts(&mut self, verb: CountAttempts) -> Vec<(String, u64)> {
        let CountAttempts { sale, server, answers } = verb;
        let counted = self.sales.attempts.entry(sale).or_default();
        for (answer, n) in answers.into_iter().filter(|(_, n)| *n > 0) {
            if counted.contains_key(&answer) || counted.len() < ATTEMPT_ANSWERS_MAX as usize {
                let of_server = counted.entry(answer).or_default().entry(server).or_default();
                *of_server = n.max(*of_server);
            }
        }
        counted.iter().map(|(answer, servers)| (answer.clone(), servers.values().sum())).collect()
    }
}
