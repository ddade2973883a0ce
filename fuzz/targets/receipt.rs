#![cfg_attr(feature = "libfuzzer", no_main)]

vesica_fuzz::target!(vesica_fuzz::session::receipt);
