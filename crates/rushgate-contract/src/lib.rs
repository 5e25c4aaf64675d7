//! Contract suite of stores: a store that passes it fulfills the contract of every verb.
//!
//! A store provides a [`Harness`] and passes it to the macro once. Every case becomes a test:
//!
//! ```
//! use std::sync::Arc;
//! use rushgate_test::ModelHarness;
//!
//! async fn harness() -> Arc<ModelHarness> {
//!     Arc::new(ModelHarness::new())
//! }
//!
//! rushgate_contract::contract_suite!(harness);
//! # fn main() {}
//! ```
//!
//! The same cases are available as data in [`cases`], for measuring the suite itself.

mod clock;
mod deadline;
mod event;
mod fixture;
mod kept;
mod line;
mod listing;
mod lock;
mod orders;
mod outbox;
mod overflow;
mod queue;
mod rebuild;
mod room;
mod sale;
mod schedule;
mod unique;
mod wait;
mod worker;

use std::future::Future;
use std::sync::Arc;

use rushgate_test::{Boxed, Harness};

pub use fixture::{Fixture, RETRY_BUDGET};

/// A case of the contract.
#[derive(Clone, Copy)]
pub struct Case {
    /// Name of the case: trait and claim.
    pub name: &'static str,
    /// Runs the case on an empty store. Panics if it fails.
    pub run: fn(Arc<dyn Harness>) -> Boxed<'static, ()>,
}

/// Runs one case on a new harness, on its own runtime.
pub fn prove<H, F>(name: &str, factory: impl FnOnce() -> F)
where
    H: Harness,
    F: Future<Output = Arc<H>>,
{
    let case = cases().into_iter().find(|case| case.name == name).expect("the macro names known cases");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime starts").block_on(async {
        let harness = factory().await;
        tokio::time::timeout(4 * RETRY_BUDGET, (case.run)(harness)).await.expect("the case ends in time");
    });
}

/// All cases of the contract.
pub fn cases() -> Vec<Case> {
    crate::contract_suite!(@list cases)
}

/// Creates a test for every case of the contract. The factory is an async function or closure without arguments. It
/// returns an `Arc` of a [`Harness`](rushgate_test::Harness) with an empty store.
#[macro_export]
macro_rules! contract_suite {
    ($factory:expr) => {
        $crate::contract_suite!(@list tests $factory);
    };
    (@tests [$($factory:expr)?] $($area:ident { $($name:ident)* })*) => {
        $crate::contract_suite!(@areas [$($factory)?] $($area { $($name)* })*);
    };
    (@areas [$factory:expr] $($area:ident $cases:tt)*) => {
        $($crate::contract_suite!(@area [$factory] $area $cases);)*
    };
    (@area [$factory:expr] $area:ident { $($name:ident)* }) => {
        mod $area {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $name() {
                    $crate::prove(concat!(stringify!($area), "::", stringify!($name)), $factory);
                }
            )*
        }
    };
    (@cases [] $($area:ident { $($name:ident)* })*) => {
        vec![$($(
            Case {
                name: concat!(stringify!($area), "::", stringify!($name)),
                run: |harness| Box::pin($area::$name(Fixture::new(harness))),
            },
        )*)*]
    };
    (@list $what:ident $($factory:expr)?) => {
        $crate::contract_suite! { @$what [$($factory)?]
            clock {
                put_back_a_lock_is_held_for_longer_and_fences_grow
                put_forward_a_lock_is_anothers_and_its_holder_is_told
                put_back_a_claim_lasts_longer_and_is_completed
                put_forward_a_claim_is_over_and_its_ticket_stale
                put_back_a_delay_lasts_longer_and_loses_nothing
                put_back_a_rate_gives_out_no_more
                put_back_and_forth_a_sale_sells_what_it_has
                put_back_far_a_sale_is_followed_by_another_worker
            }
            lock {
                a_free_lock_is_granted_at_once
                a_held_lock_answers_busy_with_the_rest_of_the_lease
                asking_again_confirms_and_restarts_the_lease
                a_waiter_has_one_place_however_often_it_asks
                a_waiter_that_asks_without_waiting_keeps_its_place
                a_release_hands_over_to_the_first_waiter
                a_release_with_a_foreign_token_changes_nothing
                a_release_sent_twice_is_answered_twice_and_done_once
                a_release_sent_again_after_those_of_others_is_answered_as_the_first
                a_release_of_a_lock_never_used_is_not_held
                a_release_with_a_task_does_both_and_wakes_both
                a_release_with_a_task_by_who_holds_nothing_puts_nothing_in
                a_release_with_a_task_for_a_full_queue_keeps_the_lock
                a_release_with_a_task_that_is_in_already_releases
                a_release_with_a_task_sent_twice_is_answered_twice_and_done_once
                a_release_with_a_task_sent_again_through_another_client_is_answered_as_the_first
                a_release_with_a_task_without_time_left_changes_nothing
                an_expired_holder_releases_nothing_and_the_line_is_served
                a_late_release_leaves_the_next_holder_alone
                an_extension_restarts_the_lease_with_the_same_fence
                a_lapsed_lease_is_not_extended
                a_foreign_token_extends_nothing
                extensions_have_an_answer_per_lock_in_order
                every_grant_has_a_greater_fence
                an_expired_lock_has_a_new_fence_even_at_the_same_moment
                an_expired_lock_goes_to_the_first_waiter_and_not_to_the_caller
                a_first_waiter_that_asks_after_the_expiry_gets_its_full_lease
                a_hand_over_gives_no_more_than_the_claim_window
                a_waiter_that_does_not_confirm_costs_one_claim_window
                a_lapsed_waiter_keeps_its_place_and_is_served_when_it_asks_again
                a_waiter_is_overtaken_only_while_it_is_silent_after_its_claim_window
                a_first_waiter_that_asks_as_its_claim_window_ends_is_not_overtaken
                nobody_stands_behind_a_lapsed_waiter_but_it_is_shown
                a_lapsed_waiter_alone_in_the_queue_is_still_listed
                a_waiter_whose_wait_is_over_leaves_nothing
                a_confirmation_by_extension_ends_the_claim_window
                a_waiter_whose_wait_is_over_is_passed_over
                asking_again_does_not_prolong_the_wait
                nobody_overtakes_the_line_unless_barging
                barging_does_not_take_a_held_lock
                leaving_removes_the_waiter
                leaving_after_the_grant_releases_the_lock
                a_stranger_leaves_nothing
                release_all_releases_what_one_client_holds_and_nothing_else
                release_all_does_not_count_what_has_expired
                a_forced_release_names_the_loser_and_hands_on
                a_forced_release_of_a_free_lock_is_nothing
                held_answers_for_this_token_only
                show_tells_who_holds_and_who_waits
                list_has_the_used_locks_by_name_in_pages
                locks_do_not_disturb_each_other
                a_listening_waiter_is_notified_of_its_grant
                a_holder_that_loses_by_force_is_notified
                a_listener_that_leaves_takes_no_other_of_its_token_along
                a_waiter_is_found_through_another_client
                a_step_is_sent_at_the_call_and_not_undone_by_dropping_the_future
                a_step_comes_behind_those_on_its_lock_that_were_sent_before
                questions_outside_the_limits_are_refused
                sixty_four_tasks_never_hold_it_together
            }
            listing {
                tasks_are_listed_by_state_in_pages
                pages_of_an_unchanged_queue_have_each_task_once
                few_in_one_state_are_found_at_once
                pages_have_what_stays_while_others_change_the_queue
                what_was_listed_last_may_be_gone
                a_replaced_task_is_listed_once
                a_prefix_narrows_a_listing
                a_cursor_of_another_listing_is_refused
            }
            queue {
                a_task_comes_out_as_it_went_in
                order_is_priority_then_due_time_then_arrival
                a_batch_has_an_answer_per_task_in_order
                a_large_batch_is_worked_off_to_its_last_task
                nothing_is_claimed_before_its_time
                keep_leaves_a_waiting_record_as_it_is
                keep_leaves_a_leased_record_as_it_is
                replace_takes_the_place_of_a_waiting_record
                a_replacement_keeps_the_place_of_its_arrival
                a_change_during_the_work_is_never_lost
                the_last_of_several_changes_during_the_work_runs_once
                a_pending_replacement_runs_after_a_failure_a_release_and_an_expiry_too
                earliest_moves_a_waiting_record_forward_only
                earliest_runs_after_the_present_run
                a_rescheduled_task_runs_at_its_new_time_and_is_otherwise_unchanged
                a_rescheduled_retry_keeps_its_attempts_and_errors
                a_rescheduled_task_keeps_its_deadline
                only_a_waiting_task_is_rescheduled_and_a_repeated_call_changes_nothing
                a_rescheduled_task_moves_within_its_key_group
                debounce_puts_off_until_the_burst_is_over
                debounce_runs_after_the_present_run
                revisions_grow_through_the_whole_queue
                a_full_queue_says_so_and_takes_nothing
                a_task_that_dies_with_its_lease_makes_room_in_a_full_queue
                a_bound_that_is_lowered_leaves_what_is_in
                top_looks_and_takes_nothing
                pop_takes_for_good
                a_claimed_task_is_nobody_elses
                claims_of_a_batch_have_growing_numbers
                a_claim_says_when_more_may_be_due
                a_lease_that_ran_out_gives_the_task_back
                a_lease_that_ran_out_is_seen_by_every_question
                a_task_whose_last_attempt_ran_out_is_dead
                a_task_dies_when_its_last_lease_ends_and_not_at_the_next_read
                an_empty_queue_has_nothing_and_a_stranger_is_empty
                a_paused_queue_gives_nothing_out_and_takes_in
                a_paused_queue_lets_the_present_work_end
                a_stale_ticket_changes_nothing
                a_batch_of_completions_has_an_answer_per_task
                a_failed_task_waits_for_its_delay
                the_last_failure_makes_a_dead_letter
                giving_up_makes_a_dead_letter_at_once_and_the_latest_death_is_kept
                giving_back_does_not_count_the_attempt
                a_task_released_or_lost_keeps_its_place_and_a_failed_one_loses_it
                a_task_released_after_a_failure_keeps_the_place_of_its_next_attempt
                a_task_released_for_a_while_comes_again_after_it
                an_extension_keeps_the_task
                a_dequeue_removes_only_what_was_read
                a_dequeue_leaves_a_task_at_work_alone
                a_worker_dequeues_its_own_task
                a_ticket_of_an_earlier_life_is_stale
                cancelling_removes_a_waiting_task
                cancelling_a_task_at_work_tells_its_worker
                a_cancelled_task_does_not_run_again
                a_cancelled_task_that_fails_is_gone_and_no_dead_letter
                a_task_enqueued_after_a_cancel_runs_after_the_canceled_run
                stats_count_by_state_and_know_the_oldest
                queues_are_listed_by_name
                queues_do_not_disturb_each_other
                dead_letters_are_listed_in_pages
                a_dead_letter_is_found_by_its_id
                a_requeued_task_has_all_its_attempts
                a_dead_letter_stays_dead_while_its_id_is_live_or_the_queue_full
                dead_letters_can_be_deleted
                claims_sent_at_once_give_each_task_to_one_of_them
                an_enqueue_sent_twice_is_carried_out_once
                a_pop_and_a_claim_sent_twice_give_the_same_tasks
                endings_sent_twice_are_answered_the_same_way
                a_task_that_is_named_twice_in_one_completion_ends_once
                removals_sent_twice_are_answered_the_same_way
                the_thousand_latest_calls_of_a_client_are_remembered
                a_listener_is_notified_of_a_new_task
                a_listener_is_notified_of_a_task_released
                a_dropped_listener_does_not_swallow_the_next_ring
                requests_outside_the_limits_are_refused
                batches_and_pages_outside_the_limits_are_refused
                a_large_payload_survives
                eight_claimers_take_five_hundred_tasks_once_each
            }
            line {
                keys_take_turns_however_long_their_lines_are
                a_line_is_in_order_of_due_time_and_arrival
                each_priority_of_a_key_has_a_line
                a_task_that_comes_before_the_first_takes_the_lines_place
                a_task_that_leaves_its_line_makes_room
                a_key_comes_out_as_it_went_in
                no_more_are_leased_than_the_queue_allows
                no_more_are_leased_of_a_key_than_it_may_have
                a_lease_that_ran_out_frees_its_keys_place
                a_limit_holds_for_what_is_in_already
                a_queues_rate_is_exact
                a_keys_rate_is_its_own
                in_first_in_first_out_a_failed_task_holds_its_line_up
                a_task_that_comes_back_gives_its_line_the_turn_back
                tasks_of_a_line_come_back_in_their_order
                without_it_a_failed_task_lets_the_others_pass
                a_waiter_is_notified_when_a_limit_allows_more
                bad_limits_are_refused
            }
            kept {
                without_a_retention_nothing_is_kept
                a_task_that_is_done_is_kept_with_its_result
                a_task_that_was_discarded_or_cancelled_says_so
                a_run_that_was_replaced_keeps_no_result
                no_more_are_kept_than_the_retention_says
                none_is_kept_for_longer_than_the_retention_says
                a_retention_that_shrinks_holds_at_once_and_brings_nothing_back_when_it_grows
                a_live_task_hides_an_earlier_one_of_its_id
                what_is_done_is_listed_in_pages
                what_was_dequeued_or_popped_leaves_nothing
                a_completion_with_a_result_sent_twice_is_carried_out_once
                failed_lost_and_snoozed_runs_are_remembered
                the_latest_runs_are_remembered_and_a_dead_letter_has_them
                a_new_life_has_no_past
                a_waiter_for_a_task_is_notified_of_its_end
                a_wait_without_notifications_ends_at_once
                progress_is_noted_with_the_lease_and_ends_with_the_run
                results_and_progress_outside_the_limits_are_refused
            }
            overflow {
                a_queue_that_drops_new_tasks_says_so_and_keeps_its_tasks
                a_queue_that_drops_its_oldest_names_what_it_dropped
                the_oldest_task_is_the_first_enqueued_and_of_equals_the_smallest_id
                a_claimed_task_is_never_dropped
                a_dropped_task_leaves_its_line_to_the_next
                a_policy_that_comes_later_knows_the_oldest
                what_was_dropped_is_kept_by_a_retention
                a_relay_passes_over_a_queue_that_drops
                what_ignores_the_bound_drops_nothing
                what_looks_like_an_order_is_dropped_as_any_other
                a_displacement_sent_twice_drops_once
            }
            deadline {
                a_task_is_claimed_before_its_deadline_and_shows_it
                a_task_whose_deadline_passed_is_a_dead_letter
                a_task_dies_at_its_deadline_and_not_at_the_next_read
                a_requeued_task_has_no_deadline
                a_run_that_continues_past_its_deadline_may_complete
                a_failure_whose_next_attempt_would_be_late_is_the_last
                a_lease_that_runs_out_past_the_deadline_is_the_last
                a_second_enqueue_brings_its_own_deadline
                a_pending_replacement_has_its_own_deadline
                a_first_waiter_that_dies_lets_the_next_go
                a_task_released_past_its_deadline_dies
                a_deadline_that_leaves_no_time_is_refused_and_nothing_is_enqueued
                a_deadline_survives_a_repeated_call
            }
            unique {
                an_id_is_not_taken_again_before_its_period_is_over
                a_period_outlives_every_end_of_its_task
                a_period_is_that_of_the_id_and_not_of_who_asks
                while_a_task_is_live_its_duplicates_are_decided_as_ever
                a_duplicate_that_is_kept_begins_no_period
                a_change_begins_its_own_period_and_shortens_none
                a_period_counts_from_the_acceptance_and_not_from_the_run
                what_is_not_taken_begins_no_period
                uniqueness_is_decided_before_the_bound
                a_task_that_is_dropped_leaves_its_id_unique
                a_cleared_id_may_be_enqueued_again
                a_uniqueness_window_is_cleared_while_its_task_is_live
                ids_and_queues_have_periods_of_their_own
                a_relay_passes_over_what_came_lately
                a_schedule_and_a_revival_ask_for_no_uniqueness
                a_call_that_is_sent_twice_begins_one_period
                many_periods_end_each_at_its_own_time
                periods_outside_the_limits_are_refused
            }
            wait {
                a_task_that_others_wait_for_does_not_begin_to_wait
                a_task_runs_when_all_that_it_waits_for_are_done
                a_task_may_wait_for_one_of_the_same_call
                a_task_knows_which_tasks_wait_for_it
                a_dependency_on_an_unknown_task_is_refused_and_nothing_is_enqueued
                one_that_is_kept_as_done_counts_as_over
                results_are_given_to_who_waited_though_nothing_else_is_kept
                a_task_continues_waiting_for_one_that_is_dead
                a_task_may_fail_with_one_that_it_waits_for
                a_task_may_run_when_one_that_it_waits_for_is_dead
                nobody_waits_for_what_can_never_be_done
                a_task_that_was_popped_counts_as_over
                a_lease_that_ran_out_for_good_is_a_death_too
                a_task_waits_for_its_time_and_for_the_others
                a_deadline_holds_while_a_task_waits
                what_waits_for_others_holds_up_no_line
                a_duplicate_changes_nothing_of_what_a_task_waits_for
                one_that_is_replaced_during_its_work_is_waited_for_until_it_is_done
                nothing_can_wait_behind_a_run_that_is_to_be_cancelled
                a_dropped_task_lets_nobody_wait
                what_waits_counts_towards_the_bound_and_a_refusal_does_not
                a_task_that_dies_when_enqueued_leaves_its_capacity_to_the_next_of_the_call
                a_batch_runs_its_callback_when_it_is_closed_and_all_parts_are_over
                a_batch_whose_parts_are_over_waits_to_be_closed
                a_task_that_is_in_already_becomes_a_part
                a_batch_may_be_part_of_another
                the_policy_of_a_batch_is_that_of_its_callback
                calls_about_waiting_tasks_sent_twice_are_carried_out_once
                a_listener_is_notified_of_a_task_that_waited
                many_that_wait_for_one_go_on_together
                a_long_chain_fails_to_its_end
                waits_outside_the_limits_are_refused
            }
            event {
                a_queue_keeps_no_events_unless_it_is_told_to
                a_run_is_told_from_its_beginning_to_its_end
                an_event_says_how_long_a_task_waited_and_ran
                what_failed_and_came_again_is_told
                a_lease_and_a_deadline_are_told_at_their_moments
                changes_and_cancels_are_told
                a_pending_replacement_is_announced_however_the_run_before_it_ends
                what_leaves_without_a_run_is_told
                waiters_of_a_failed_task_are_notified_with_it
                tasks_of_other_processes_are_announced_too
                only_the_latest_events_are_kept
                another_number_of_events_holds_at_once
                many_events_are_forgotten_together
                a_call_that_is_sent_twice_is_told_once
                a_follower_of_a_queue_is_notified_of_what_happens
                events_outside_the_limits_are_refused
            }
            schedule {
                a_schedule_is_entered_as_it_was_said
                a_schedule_that_says_the_same_keeps_its_next_moment
                a_schedule_that_says_something_else_is_changed
                a_change_to_what_was_read_is_stale_after_another
                a_due_schedule_puts_its_task_in_once
                a_schedule_fires_at_its_moment_and_not_before
                what_was_read_before_a_change_does_not_fire
                due_schedules_come_by_moment_and_tell_of_the_next
                a_paused_schedule_stands_still
                a_schedule_without_a_next_moment_rests
                missed_occurrences_are_enqueued_or_skipped_together
                a_task_that_is_in_already_is_kept
                the_bound_of_the_queue_stops_no_schedule
                a_deleted_schedule_leaves_its_tasks
                a_listener_is_notified_of_a_schedule_that_fires
                schedules_are_listed_by_id_in_pages
                schedules_outside_the_limits_are_refused
                sixteen_who_look_after_a_schedule_fire_it_once
            }
            worker {
                an_idle_worker_is_listed_as_it_announced_itself
                a_worker_that_is_silent_or_has_ended_is_not_listed
                a_queue_without_tasks_is_listed_while_it_has_a_live_worker
                a_worker_learns_its_mode_when_it_announces_itself
                workers_are_listed_by_id_in_pages_and_for_their_queue_alone
                a_thousand_workers_are_listed_and_others_work_too
                announcements_outside_the_limits_are_refused
            }
            orders {
                a_worker_gets_each_reservation_once_with_its_current_decision
                a_decision_made_during_the_write_is_delivered_after_it
                what_was_not_reported_is_handed_out_again
                events_without_entries_need_no_report
                a_batch_has_a_maximum_number_of_events
                a_batch_of_large_carts_ends_early
                stock_changes_are_entries
                one_worker_at_a_time_follows_a_sale
                a_report_of_a_worker_that_was_replaced_is_ignored
                a_worker_whose_lease_ended_continues_unless_another_took_over
                a_worker_that_stops_makes_room
                a_report_for_another_generation_is_ignored
                a_failed_entry_is_retried_when_due_and_stops_no_other
                a_failed_entry_with_nothing_left_to_record_is_dropped
                the_reason_of_a_failure_is_cut
                a_failure_of_what_was_not_delivered_is_ignored
                many_failed_entries_hold_up_the_log
                failed_entries_are_paged_and_made_due_at_once
                a_sale_without_a_ledger_is_not_followed
                a_halted_sale_is_followed_too
                a_rebuilt_sale_is_followed_from_behind_what_was_loaded
                every_verb_that_changes_a_sale_wakes_its_followers
                a_halt_a_rebuild_and_a_receipt_wake_the_followers_of_a_sale
                a_rebuild_that_begins_wakes_the_followers_of_a_sale
            }
            outbox {
                relayed_tasks_are_enqueued_in_order
                a_relayed_task_is_not_enqueued_again_though_it_has_ended
                a_relay_that_was_cut_off_continues_behind_what_arrived
                a_full_queue_stops_a_relay_until_there_is_room
                a_relay_without_tasks_says_how_far_it_got
                outboxes_and_queues_have_marks_of_their_own
                a_relayed_task_keeps_what_it_asks_for
                a_listener_is_notified_of_a_relayed_task
                relays_outside_the_limits_are_refused
                sixteen_relays_of_one_outbox_put_each_task_in_once
            }
            rebuild {
                a_halted_sale_stands_still
                a_stock_change_that_was_refused_stays_so_when_it_is_sent_again
                a_paused_sale_that_is_over_says_so
                a_sale_without_a_ledger_cannot_be_rebuilt
                a_rebuild_takes_the_place_of_the_sale
                what_was_withdrawn_stays_so_in_a_rebuild
                a_part_that_is_loaded_twice_counts_once
                what_does_not_add_up_is_not_switched_to
                the_latest_rebuild_wins
                a_receipt_gives_the_same_units_back
                a_receipt_gives_other_units_if_those_are_gone
                a_receipt_does_not_lift_the_limit
                a_receipt_of_a_hold_that_ran_out_is_not_honoured
                a_receipt_of_this_generation_proves_a_lost_write
                receipts_come_before_strangers
                a_receipt_finds_one_seat_over_several_segments
                verdicts_of_another_generation_change_nothing
                a_sale_can_be_rebuilt_again_and_again
                parts_of_an_unknown_sku_are_refused
            }
            sale {
                attempts_are_added_up_over_servers_that_count_them
                attempts_of_servers_that_have_ended_stay_in_the_sums
                attempts_have_a_limited_number_of_answers
                counts_of_attempts_outside_the_limits_are_refused
                a_sale_is_made_once_and_the_same_call_is_answered_the_same
                a_sale_opens_and_ends_once
                a_sale_that_is_not_open_sells_nothing
                a_sale_keeps_its_hours
                sales_are_listed_by_id_in_pages
                an_unknown_sale_sku_or_reservation_is_said_to_be_unknown
                units_are_numbered_and_given_lowest_first
                a_cart_is_filled_in_the_order_of_its_lines
                a_cart_is_all_or_nothing
                nobody_gets_more_than_the_limit
                the_limit_comes_before_the_stock
                the_same_key_gives_the_same_reservation
                a_key_with_other_lines_is_refused
                held_units_may_come_back_and_sold_ones_do_not
                the_last_units_are_not_split
                returned_numbers_are_sold_again_lowest_first
                a_short_line_ends_expired_holds_on_its_way
                enough_stock_leaves_expired_holds_alone
                one_seat_is_found_for_several_segments
                no_common_seat_is_named_by_the_first_line
                a_confirmed_hold_is_sold_for_good
                a_cancelled_hold_gives_its_units_back_once
                a_hold_past_its_deadline_is_ended_by_the_next_call
                expire_ends_expired_holds_by_deadline
                a_reservation_and_its_order_come_together
                the_largest_cart_has_its_order
                an_order_has_its_buyer_whatever_the_name
                a_refused_reservation_makes_no_order
                with_a_ledger_decisions_wait_for_it
                the_ledger_settles_each_decision_once
                a_hold_that_is_not_decided_is_not_settled
                a_rejected_order_gives_its_units_back
                units_that_the_ledger_knows_as_sold_are_withdrawn
                with_a_ledger_an_expired_hold_is_not_free_before_it_is_settled
                added_units_are_numbered_on
                withdrawn_units_are_the_highest_free_ones
                what_is_withdrawn_between_held_units_is_named_piece_by_piece
                units_added_above_withdrawn_ones_are_sold_after_those_below
                one_seat_is_found_above_withdrawn_ones
                a_million_units_are_withdrawn_in_one_step
                one_call_withdraws_a_limited_number_of_returned_units
                a_stock_change_sent_twice_is_carried_out_once
                an_op_names_one_stock_change
                more_stock_than_can_be_numbered_is_refused
                events_are_numbered_without_gaps_and_paged
                middle_states_have_events_without_units
                the_snapshot_shows_every_unit_in_its_place
                wishes_outside_the_limits_are_refused
                sales_outside_the_limits_are_refused
                two_hundred_buyers_get_ten_units_between_them
                one_row_decides_between_confirm_cancel_and_the_deadline
            }
            room {
                a_sale_has_no_room_unless_one_is_opened
                a_room_is_opened_as_it_was_said
                buyers_have_serials_by_arrival_and_keep_them
                places_are_served_evenly
                a_served_buyer_is_admitted_until_the_same_time
                a_buyer_who_is_not_served_is_not_admitted
                a_buyer_whose_token_expired_joins_again_at_the_end
                places_of_those_who_never_come_are_passed_over
                places_that_nobody_stood_at_are_not_saved_up
                another_rate_keeps_what_is_served
                the_same_rules_change_nothing
                nobody_is_let_in_before_the_moment_that_was_said
                before_a_draw_nobody_is_let_in
                nothing_is_drawn_before_its_entry_is_closed
                an_entry_is_closed_once_and_who_joins_later_stands_behind
                a_draw_shows_the_secret_and_gives_those_of_its_entry_other_places
                a_room_is_drawn_once
                after_a_draw_only_the_place_of_ones_own_serial_counts
                a_rate_can_change_before_a_draw
                the_order_of_a_room_stays_and_only_a_draw_is_drawn
                a_closed_room_leaves_nothing
                sales_have_rooms_of_their_own
                rooms_outside_the_limits_are_refused
                a_fast_rate_is_exact
                sixteen_who_join_at_once_have_sixteen_serials
            }
        }
    };
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
