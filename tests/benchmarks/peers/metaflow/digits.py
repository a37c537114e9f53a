"""`python digits.py run --max_digits 4`, then `python digits.py resume evaluate`."""

from metaflow import FlowSpec, Parameter, step


class Digits(FlowSpec):
    max_digits = Parameter("max_digits", default=4)

    @step
    def start(self):
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        self.data = train_test_split(*load_digits(return_X_y=True), random_state=3)
        self.next(self.train)

    @step
    def train(self):
        from sklearn.ensemble import RandomForestClassifier

        self.model = RandomForestClassifier(random_state=0).fit(self.data[0], self.data[2])
        self.next(self.evaluate)

    @step
    def evaluate(self):
        from sklearn.metrics import accuracy_score, recall_score

        found = self.model.predict(self.data[1])
        self.accuracy = accuracy_score(self.data[3], found)
        self.weak = int(sum(recall_score(self.data[3], found, average=None) < 0.95))
        self.passed = self.weak <= self.max_digits
        self.next(self.end)

    @step
    def end(self):
        if not self.passed:
            raise ValueError(f"{self.weak} digits are read too badly")
        self.registered = self.model


if __name__ == "__main__":
    Digits()
