"""Plan a deployment: what apply would change, what follows from it, and how a plan is written down."""
