"""`python flow.py run`: the same steps by Metaflow. It has no registry: the artifact of a passed run is the model."""

from metaflow import FlowSpec, step


class Abalone(FlowSpec):
    @step
    def start(self):
        import pandas as pd
        from sklearn.model_selection import train_test_split

        frame = pd.read_csv("abalone.csv", dtype={"sex": "category"})
        self.train_rows, rest = train_test_split(frame, test_size=0.2, random_state=7)
        self.validation, self.test = train_test_split(rest, test_size=0.5, random_state=7)
        self.next(self.train)

    @step
    def train(self):
        import xgboost as xgb

        def matrix(rows):
            return xgb.DMatrix(rows.drop(columns=["id", "rings"]), rows["rings"], enable_categorical=True)

        measured = [(matrix(self.train_rows), "train"), (matrix(self.validation), "validation")]
        options = {"max_depth": 5, "learning_rate": 0.1, "tree_method": "hist"}
        booster = xgb.train(options, measured[0][0], 100, evals=measured, early_stopping_rounds=20, verbose_eval=False)
        self.model = bytes(booster[: booster.best_iteration + 1].save_raw("ubj"))
        self.next(self.evaluate)

    @step
    def evaluate(self):
        import xgboost as xgb
        from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

        booster = xgb.Booster(model_file=bytearray(self.model))
        rows = xgb.DMatrix(self.test.drop(columns=["id", "rings"]), enable_categorical=True)
        answers = booster.predict(rows)
        self.rmse = root_mean_squared_error(self.test["rings"], answers)
        self.mae = mean_absolute_error(self.test["rings"], answers)
        self.r2 = r2_score(self.test["rings"], answers)
        self.next(self.compare)

    @step
    def compare(self):
        from metaflow import Flow

        earlier = [run.data.rmse for run in Flow("Abalone").runs() if run.successful]
        self.better = self.rmse <= 3 and self.rmse < min(earlier, default=float("inf"))
        self.next(self.end)

    @step
    def end(self):
        if not self.better:
            raise ValueError(f"not registered: rmse {self.rmse:.3f}")
        self.registered = self.model


if __name__ == "__main__":
    Abalone()
