//! The tests of every caller, in one list: root does them where they stand, and others by the macro that is named.

macro_rules! of_every_caller {
    ($by:ident) => {
        $by! {
            exits::a_death_by_signal_is_128_and_its_number
            exits::a_file_that_is_no_program_is_126
            exits::a_missing_program_is_127_and_one_that_cannot_run_126
            exits::standard_input_reaches_the_program
            exits::streams_are_opened_by_their_names
            exits::the_programs_own_status_passes_through
            export::an_export_into_the_workspace_itself_is_all_or_nothing
            export::j12_a_symlink_planted_where_the_export_goes_is_refused
            export::j56_collecting_results_follows_nothing_and_opens_no_door
            export::the_workspace_as_the_run_left_it_is_exported
            export::what_comes_out_is_what_was_there
            filesystem::a_path_named_with_read_is_there_and_read_only
            filesystem::j11_proc_carries_every_restriction
            filesystem::j15_no_descriptor_of_the_caller_is_inherited
            filesystem::j37_a_socket_of_the_host_is_not_reachable
            filesystem::the_caller_s_command_line_and_environment_do_not_show
            filesystem::the_hosts_other_files_are_not_there
            interactive::a_shell_has_job_control_and_its_exit_code_is_the_run_s
            interactive::j49_the_terminal_inside_is_another_than_the_caller_s
            interactive::the_terminal_is_as_before_however_the_run_ends
            kernel_objects::j34_no_key_is_left_for_a_later_run
            kernel_objects::j39_memory_and_queues_are_the_jails_own
            kernel_objects::j41_a_crash_starts_no_handler_of_the_host
            kernel_objects::j43_nothing_is_mounted_made_or_joined
            kernel_objects::j45_nothing_looks_into_others_or_drives_the_kernel
            limits::a_file_larger_than_allowed_is_not_written
            limits::a_flood_of_output_is_cut
            limits::descriptors_are_bounded
            limits::the_wall_clock_ends_a_sleeper
            network::j35_other_socket_families_do_not_exist
            network::j36_an_abstract_socket_of_the_host_is_not_there
            privileges::j21_a_set_user_id_program_raises_nothing
            privileges::j22_every_capability_set_is_empty
            privileges::j24_a_32_bit_call_kills_its_process
            privileges::j44_no_namespace_can_be_made
            privileges::j46_the_jails_init_cannot_be_looked_into
            procfs::j40_directories_of_devices_are_empty
            procfs::j40_no_setting_of_the_kernel_opens_for_writing
            procfs::j40_what_proc_tells_of_the_host_is_covered
            programs::j15_the_working_directory_is_inside
            programs::j16_the_runner_is_not_overwritten
            programs::j20_what_would_load_foreign_code_is_not_passed
            syscalls::j25_no_ring_can_be_made_or_handed_in
            syscalls::j27_clone3_does_not_exist_and_threads_do
            syscalls::j28_an_unknown_call_is_unknown
            syscalls::j29_the_filters_are_there_in_every_mode_and_profile
            terminal::j26_an_upper_half_disguises_no_request
            terminal::j49_no_driver_is_put_behind_a_terminal
            terminal::j49_the_program_has_a_session_of_its_own_and_no_terminal
            terminal::j49_the_terminal_of_the_caller_is_not_typed_into_or_changed
        }
    };
}

pub(crate) use of_every_caller;
