//! What is asked of the planner about a run with these terms.

use vesica_plan::Request;
use vesica_wire::Link;

use super::{LAMBDA, MIN_SIZE, OPTIMIZE, POST_QUANTUM, REVEAL, SECURITY, Terms, lambda_problem};

impl Terms {
    /// A question to the planner, about sets of these sizes, so many columns of the sender's where there is something to
    /// sum, and a link. Whatever `is_given` does not know is left open.
    ///
    /// # Errors
    /// What no run has, in words.
    pub fn request(
        &self,
        is_given: impl Fn(&str) -> bool,
        sizes: [u64; 2],
        columns: u8,
        link: Link,
    ) -> Result<Request, String> {
        let lambda = self.get(&LAMBDA);
        if let Some(problem) = lambda_problem(lambda) {
            return Err(problem);
        }
        let optimize = self.get(&OPTIMIZE).over(link).choice();
        Ok(Request {
            lambda,
            post_quantum: self.get(&POST_QUANTUM),
            security: is_given("security").then(|| self.get(&SECURITY)),
            min_size: self.get(&MIN_SIZE),
            optimize: is_given("optimize").then_some(optimize),
            link,
            ..Request::new(sizes, self.get(&REVEAL), columns)
        })
    }
}
