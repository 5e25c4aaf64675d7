"""Tests of other packages that cannot apply to Rushgate, by suite and reason. Every other test must run and pass."""

from __future__ import annotations

from typing import Dict

CLOCK = "replaces the clock and the sleeps of a polling waiter; waiters of Rushgate are woken by messages"
FOREVER = "wants a lock without an end; a lock of Rushgate always has a lease, which its holder renews"
GROUPS = "Rushgate has no groups of members, elections or heartbeats of members"
KEY_VALUE = "Rushgate has no key-value store"

REDIS_LOCK = {
    FOREVER: "test_lock test_lock_token test_lock_token_thread_local_false",
    CLOCK: "test_blocking_timeout test_high_sleep_small_blocking_timeout",
    "shortens the lease of another client": "test_reacquire_lock",
    "tests a factory of redis-py": "test_lock_class_argument",
}

NOT_APPLICABLE: Dict[str, Dict[str, str]] = {
    "redis-py, threads": {**REDIS_LOCK, CLOCK: f"{REDIS_LOCK[CLOCK]} test_context_manager_blocking_timeout"},
    "redis-py, asyncio": REDIS_LOCK,
    "dogpile.cache": {
        "counts callers that waited longer than a given time, which a busy machine makes them do": """
            test_quick test_slow test_return_while_in_progress test_get_value_plus_created_long_create
            test_get_value_plus_created_registry_unsafe_cache test_get_value_plus_created_registry_safe_cache_quick
            test_get_value_plus_created_registry_safe_cache_slow""",
    },
    "tooz": {
        "a Rushgate lock has one holder; there are no shared locks": """
            test_get_lock_locking_exclusive_and_shared test_get_lock_locking_shared_and_exclusive test_get_shared_lock
            test_get_shared_lock_locking_same_lock_twice test_get_shared_lock_locking_two_lock""",
        GROUPS: """
            test_create_group test_create_group_already_exist test_delete_group test_delete_group_non_empty
            test_delete_group_non_existent test_disconnect_leave_group test_get_groups test_get_groups_str_group_id
            test_get_leader test_get_member_capabilities test_get_member_capabilities_complex
            test_get_member_capabilities_nonexistent_group test_get_member_capabilities_nonjoined_member
            test_get_member_info test_get_member_info_complex test_get_member_info_nonexistent_group
            test_get_member_info_nonjoined_member test_get_members test_get_members_str_member_id
            test_get_members_with_capabilities test_get_members_with_capabilities_empty_group
            test_get_members_with_capabilities_multiple test_get_members_with_capabilities_no_caps
            test_get_members_with_capabilities_nonexistent_group test_heartbeat test_heartbeat_loop test_join_group
            test_join_group_create test_join_group_with_member_id_already_exists test_join_nonexistent_group
            test_leave_group test_leave_group_not_joined_by_member test_leave_nonexistent_group test_run_for_election
            test_run_for_election_multiple_clients test_run_for_election_multiple_clients_stand_down test_timeout
            test_unwatch_elected_as_leader test_unwatch_elected_as_leader_callback_not_found
            test_unwatch_join_group_callback_not_found test_unwatch_leave_group
            test_unwatch_leave_group_callback_not_found test_update_capabilities
            test_update_capabilities_with_group_id_nonexistent test_watch_group_join test_watch_join_group_booted_out
            test_watch_join_group_disappear test_watch_join_group_non_existent test_watch_leave_group
            test_watch_leave_group_non_existent""",
    },
    "huey": {
        KEY_VALUE: """
            test_peek_many test_result_items_str_keys test_put_if_empty_ttl test_result_store_methods test_wait_result
            test_counter""",
        "reads the schedule as of a time in the past; the store's clock decides what is due": "test_schedule_methods",
    },
}
