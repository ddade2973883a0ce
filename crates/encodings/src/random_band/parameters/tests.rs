use super::*;

#[test]
fn small_maps_are_dense() {
    for lambda in [40, 64, 128] {
        for items in 1..448 - lambda as usize {
            let parameters = Parameters::new(items, lambda);
            assert_eq!(parameters.size(), items + lambda as usize);
            assert_eq!(parameters.starts(), 1);
        }
    }
}
